"""How an operation of the API is described: its answers, errors, headers and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from jobs.api.query import Parameter
from jobs.api.schemas import reference
from jobs.lifecycle import job_id_for

JOB_ID: Final = str(job_id_for("test-job-1"))
ERRORS: Final[Mapping[int, tuple[str, dict[str, Any]]]] = {
    400: (
        "Something cannot be used. The sentence names it, and nothing was changed.",
        {"error": "a job id has 24 hexadecimal digits"},
    ),
    404: ("No job has this id.", {"error": f"no job has the id {JOB_ID}"}),
    409: (
        "The job's status does not allow this, or it is no template. `status` is the current one.",
        {"error": f"job {JOB_ID} is completed and cannot be cancelled", "status": "completed"},
    ),
    413: ("The body is over its limit.", {"error": "the body must not be larger than 1 MiB"}),
    412: (
        "Another version is current than the one that `If-Match` names.",
        {"error": "the definition has version 4, not 3: read it again"},
    ),
    415: (
        "The body does not say that it is JSON.",
        {"error": "Content-Type must be application/json, in UTF-8"},
    ),
    500: ("A bug.", {"error": "internal error; the server's log has the details"}),
    503: (
        "MongoDB does not answer. Repeat the request after `Retry-After` seconds.",
        {
            "error": "the job store does not answer; whether anything was stored is unknown. Repeat"
            " the request: an idempotencyKey is never stored twice."
        },
    ),
}
FOREIGN_HOST: Final = {"error": "the Host header names no host of this API (ALLOWED_HOSTS)"}
USED_KEY: Final = (
    "The idempotencyKey is used already. `id` is the job that holds it.",
    {
        "error": f"idempotencyKey 'test-job-1' is already used by job {JOB_ID}",
        "id": JOB_ID,
    },
)

Operation = Callable[[Callable[..., Any]], Callable[..., Any]]


def json_response(
    description: str, schema: Mapping[str, Any], *examples: tuple[str, Any]
) -> OpenApiResponse:
    """An answer in JSON, with examples by name."""
    return OpenApiResponse(
        response=schema,
        description=description,
        examples=[OpenApiExample(name, value=value) for name, value in examples],
    )


def header(name: str, description: str, *statuses: int) -> OpenApiParameter:
    """A header of the answers with these statuses."""
    return OpenApiParameter(
        name, location=OpenApiParameter.HEADER, description=description, response=list(statuses)
    )


LOCATION: Final = header("Location", "The new job's address.", 201)
LINK: Final = header("Link", 'Leads to the next page, as rel="next"; absent on the last.', 200)
RETRY_AFTER: Final = header("Retry-After", "Seconds.", 503)


ORIGIN: Final = (
    OpenApiParameter(
        "X-Request-Id",
        type={"type": "string", "pattern": "^[A-Za-z0-9._~:/+=@-]{1,128}$"},
        location=OpenApiParameter.HEADER,
        description="Kept in the jobs that the request makes, and in the log; one that is not of"
        " this form is replaced. The answer has it.",
        examples=[OpenApiExample("id", value="0af7651916cd43dd")],
    ),
    OpenApiParameter(
        "traceparent",
        type={"type": "string"},
        location=OpenApiParameter.HEADER,
        description="W3C Trace Context: the trace that the jobs are to be part of.",
        examples=[
            OpenApiExample("trace", value="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        ],
    ),
)
"""Headers of the requests that make jobs."""


def operation(
    operation_id: str,
    summary: str,
    description: str,
    answers: Mapping[Any, OpenApiResponse],
    errors: Sequence[int],
    *,
    body: Mapping[str, Any] | None = None,
    examples: Sequence[tuple[str, Any]] = (),
    parameters: Sequence[OpenApiParameter] = (),
    error_examples: Mapping[int, dict[str, Any]] | None = None,
    tag: str = "jobs",
) -> Operation:
    """What a view's method is decorated with.

    Args:
        operation_id, summary, description: of the operation.
        answers: the answers that are no errors, and errors of a meaning of their own, by status.
        errors: the statuses of the other errors, see `ERRORS`.
        body: schema of what it takes.
        examples: of the body, by name.
        parameters: of the query and the path, and headers of the answers.
        error_examples: where the one in `ERRORS` does not fit.
        tag: what it is about.
    """
    responses = dict(answers)
    uses_store = 503 in errors
    for code in errors:
        meaning, example = ERRORS[code]
        example = (error_examples or {}).get(code, example)
        responses.setdefault(code, json_response(meaning, reference("Error"), ("error", example)))
    decorator: Operation = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description,
        tags=[tag if uses_store else "about"],
        parameters=[*parameters, *([RETRY_AFTER] if uses_store else [])],
        request={"application/json": body} if body else None,
        responses=responses,
        examples=[OpenApiExample(name, value=value, request_only=True) for name, value in examples],
    )
    return decorator


ID_PARAMETER: Final = OpenApiParameter(
    "id",
    type={"type": "string", "pattern": "^[0-9a-fA-F]{24}$"},
    location=OpenApiParameter.PATH,
    description="Job id: 24 hexadecimal digits.",
    examples=[OpenApiExample("id", value=JOB_ID)],
)


def list_parameters(parameters: Mapping[str, Parameter]) -> list[OpenApiParameter]:
    """The query parameters of a list, and the header that leads on."""
    return [
        *(
            OpenApiParameter(
                name,
                type=dict(parameter.schema),
                required=parameter.required,
                description=parameter.description,
                examples=[OpenApiExample(name, value=parameter.example)],
            )
            for name, parameter in parameters.items()
        ),
        LINK,
    ]
