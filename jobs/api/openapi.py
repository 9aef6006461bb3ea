"""The OpenAPI document: what each operation takes and answers, with an example of everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from jobs import registry
from jobs.api.query import PARAMETERS
from jobs.api.schemas import COMPONENTS, reference
from jobs.lifecycle import job_id_for

JOB_ID: Final = str(job_id_for("test-job-1"))
_RUN_KEY: Final = "nightly-report-run-1790704800123001000"
ONE_OFF: Final[dict[str, Any]] = {
    "idempotencyKey": "test-job-1",
    "tenantId": "tenant-a",
    "jobType": "log-message",
    "payload": {"message": "hello from the scheduler"},
    "priority": 5,
    "scheduledAt": "2026-09-29T18:00:00Z",
    "maxAttempts": 3,
}
RECURRING: Final[dict[str, Any]] = {
    "idempotencyKey": "nightly-report",
    "tenantId": "tenant-a",
    "jobType": "log-message",
    "payload": {"message": "nightly report run"},
    "cron": "0 2 * * *",
    "timezone": "Europe/Berlin",
    "maxAttempts": 3,
}
_PENDING: Final = {
    "id": JOB_ID,
    "idempotencyKey": "test-job-1",
    "tenantId": "tenant-a",
    "jobType": "log-message",
    "payload": {"message": "hello from the scheduler"},
    "priority": 5,
    "status": "pending",
    "scheduledAt": "2026-09-29T18:00:00Z",
    "attempts": 0,
    "maxAttempts": 3,
    "createdAt": "2026-09-29T17:59:00.123Z",
    "updatedAt": "2026-09-29T17:59:00.123Z",
}
_TEMPLATE: Final = {
    "id": str(job_id_for("nightly-report")),
    "idempotencyKey": "nightly-report",
    "tenantId": "tenant-a",
    "jobType": "log-message",
    "payload": {"message": "nightly report run"},
    "priority": 0,
    "status": "pending",
    "scheduledAt": "2026-09-30T00:00:00Z",
    "cron": "0 2 * * *",
    "timezone": "Europe/Berlin",
    "catchUp": "one",
    "overlap": "allow",
    "missed": 0,
    "skipped": 0,
    "attempts": 0,
    "maxAttempts": 3,
    "createdAt": "2026-09-29T18:00:00Z",
    "updatedAt": "2026-09-29T18:00:00Z",
}
_COMPLETED: Final = {
    **_PENDING,
    "status": "completed",
    "queuedAt": "2026-09-29T18:00:00.004Z",
    "claimedBy": "executor-3k9x",
    "claimedAt": "2026-09-29T18:00:00.007Z",
    "startedAt": "2026-09-29T18:00:00.007Z",
    "finishedAt": "2026-09-29T18:00:00.009Z",
    "history": [
        {
            "number": 1,
            "executor": "executor-3k9x",
            "startedAt": "2026-09-29T18:00:00.007Z",
            "finishedAt": "2026-09-29T18:00:00.009Z",
            "outcome": "completed",
        }
    ],
    "updatedAt": "2026-09-29T18:00:00.009Z",
}
_RUN: Final = {
    **_PENDING,
    "id": str(job_id_for(_RUN_KEY)),
    "idempotencyKey": _RUN_KEY,
    "payload": {"message": "nightly report run"},
    "priority": 0,
    "scheduledAt": "2026-09-29T18:00:00.123Z",
    "createdAt": "2026-09-29T18:00:00.123Z",
    "updatedAt": "2026-09-29T18:00:00.123Z",
    "templateId": _TEMPLATE["id"],
}

_ERRORS: Final[Mapping[int, tuple[str, dict[str, Any]]]] = {
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
_FOREIGN_HOST: Final = {"error": "the Host header names no host of this API (ALLOWED_HOSTS)"}
_USED_KEY: Final = (
    "The idempotencyKey is used already. `id` is the job that holds it.",
    {
        "error": f"idempotencyKey 'test-job-1' is already used by job {JOB_ID}",
        "id": JOB_ID,
    },
)

Operation = Callable[[Callable[..., Any]], Callable[..., Any]]


def _json(
    description: str, schema: Mapping[str, Any], *examples: tuple[str, Any]
) -> OpenApiResponse:
    return OpenApiResponse(
        response=schema,
        description=description,
        examples=[OpenApiExample(name, value=value) for name, value in examples],
    )


def _header(name: str, description: str, *statuses: int) -> OpenApiParameter:
    return OpenApiParameter(
        name, location=OpenApiParameter.HEADER, description=description, response=list(statuses)
    )


_LOCATION: Final = _header("Location", "The new job's address.", 201)
_LINK: Final = _header("Link", 'Leads to the next page, as rel="next"; absent on the last.', 200)
_RETRY_AFTER: Final = _header("Retry-After", "Seconds.", 503)


def _operation(
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
) -> Operation:
    responses = dict(answers)
    uses_store = 503 in errors
    for code in errors:
        meaning, example = _ERRORS[code]
        example = (error_examples or {}).get(code, example)
        responses.setdefault(code, _json(meaning, reference("Error"), ("error", example)))
    decorator: Operation = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description,
        tags=["jobs" if uses_store else "about"],
        parameters=[*parameters, *([_RETRY_AFTER] if uses_store else [])],
        request={"application/json": body} if body else None,
        responses=responses,
        examples=[OpenApiExample(name, value=value, request_only=True) for name, value in examples],
    )
    return decorator


_ID_PARAMETER: Final = OpenApiParameter(
    "id",
    type={"type": "string", "pattern": "^[0-9a-fA-F]{24}$"},
    location=OpenApiParameter.PATH,
    description="Job id: 24 hexadecimal digits.",
    examples=[OpenApiExample("id", value=JOB_ID)],
)


def _action(
    verb: str, summary: str, description: str, example: dict[str, Any], refusal: dict[str, Any]
) -> Operation:
    return _operation(
        f"{verb}Job",
        summary,
        f"{description} Takes no body.",
        {200: _json("The job as it is now.", reference("Job"), ("job", example))},
        (400, 404, 409, 500, 503),
        parameters=[_ID_PARAMETER],
        error_examples={409: refusal},
    )


def _is_no_template(verb: str) -> dict[str, Any]:
    return {"error": f"job {JOB_ID} is no template and cannot be {verb}", "status": "pending"}


SUBMIT: Final = _operation(
    "submitJob",
    "Submit a job or template",
    "Stores a one-off job (`scheduledAt`) or a recurring template (`cron`). 201 means that it is"
    " stored, not that it has run.",
    {
        201: _json(
            "The stored job.",
            reference("Job"),
            ("one-off", _PENDING),
            ("recurring", _TEMPLATE),
        ),
        409: _json(_USED_KEY[0], reference("Error"), ("used key", _USED_KEY[1])),
    },
    (400, 413, 415, 500, 503),
    body=reference("Submission"),
    parameters=[_LOCATION],
    examples=[("one-off", ONE_OFF), ("recurring", RECURRING)],
    error_examples={400: {"error": 'priority must be an integer of 32 bits, not "high"'}},
)
SUBMIT_MANY: Final = _operation(
    "submitJobs",
    "Submit many jobs at once",
    "Up to 1,000 jobs in one body of up to 16 MiB, stored by one insert. Each item is judged alone:"
    " a bad one does not keep the others from being stored.",
    {
        200: _json(
            "One result for each item, in order.",
            {"type": "array", "items": reference("BulkResult")},
            (
                "results",
                [
                    {"status": 201, "id": JOB_ID},
                    {"status": 400, "error": "tenantId is required"},
                    {"status": 409, **_USED_KEY[1]},
                ],
            ),
        )
    },
    (400, 413, 415, 500, 503),
    body={"type": "array", "maxItems": 1000, "items": reference("Submission")},
    examples=[("two jobs", [ONE_OFF, RECURRING])],
    error_examples={
        400: {"error": "body must be an array of jobs, not an object"},
        413: {"error": "the body must not be larger than 16 MiB"},
    },
)
LIST: Final = _operation(
    "listJobs",
    "List a tenant's jobs",
    "Jobs, templates and runs, newest first, as a bare array. Unknown parameters are refused; an"
    " empty value counts as absent.",
    {
        200: _json(
            "One page of them.",
            {"type": "array", "items": reference("Job")},
            ("jobs", [_COMPLETED]),
        )
    },
    (400, 500, 503),
    parameters=[
        *(
            OpenApiParameter(
                name,
                type=dict(parameter.schema),
                required=parameter.required,
                description=parameter.description,
                examples=[OpenApiExample(name, value=parameter.example)],
            )
            for name, parameter in PARAMETERS.items()
        ),
        _LINK,
    ],
    error_examples={
        400: {"error": '"statsu" is not a parameter of the list; did you mean "status"?'}
    },
)
GET: Final = _operation(
    "getJob",
    "Get a job",
    "The job's current state.",
    {200: _json("The job.", reference("Job"), ("job", _COMPLETED))},
    (400, 404, 500, 503),
    parameters=[_ID_PARAMETER],
)
CANCEL: Final = _action(
    "cancel",
    "Cancel a job or template",
    "Stops it for good, unless it is over already. A running handler is told by its lease; what it"
    " returns is not kept. Runs that a template has spawned go on.",
    {
        **_PENDING,
        "status": "cancelled",
        "finishedAt": "2026-09-29T17:59:30Z",
        "updatedAt": "2026-09-29T17:59:30Z",
    },
    _ERRORS[409][1],
)
REDRIVE: Final = _action(
    "redrive",
    "Redrive a dead letter or a cancelled job",
    "dlq or cancelled → pending with all attempts again: a job is due at once, a template at its"
    " next occurrence.",
    {**_PENDING, "scheduledAt": "2026-09-29T18:05:00Z", "updatedAt": "2026-09-29T18:05:00Z"},
    {"error": f"job {JOB_ID} is completed and cannot be redriven", "status": "completed"},
)
PAUSE: Final = _action(
    "pause",
    "Pause a template",
    "No occurrence is run until it is resumed. 409 for a job that is no template.",
    {**_TEMPLATE, "status": "paused", "updatedAt": "2026-09-29T18:05:00Z"},
    _is_no_template("paused"),
)
RESUME: Final = _action(
    "resume",
    "Resume a template",
    "Goes on with the next occurrence; those that passed meanwhile are not run. 409 for a job that"
    " is no template.",
    {**_TEMPLATE, "updatedAt": "2026-09-29T18:06:00Z"},
    _is_no_template("resumed"),
)
RUN: Final = _operation(
    "runJob",
    "Run a template now",
    "Spawns one run beside the template's occurrences, also while it is paused. Takes no body."
    " Repeating the request spawns another run. 409 for a job that is no template.",
    {201: _json("The run.", reference("Job"), ("run", _RUN))},
    (400, 404, 409, 500, 503),
    parameters=[_ID_PARAMETER, _LOCATION],
    error_examples={409: _is_no_template("run")},
)
HEALTH: Final = _operation(
    "health",
    "Liveness",
    "Says that the process answers. Does not ask MongoDB.",
    {
        (200, "text/plain"): OpenApiResponse(
            {"type": "string", "const": "ok"}, "Alive.", [OpenApiExample("ok", value="ok")]
        )
    },
    (500,),
)
OPENAPI: Final = _operation(
    "openapi",
    "This document",
    "The API in OpenAPI 3.1.",
    {
        200: _json(
            "The document.", {"type": "object"}, ("document", {"openapi": "3.1.0", "paths": {}})
        )
    },
    (400, 500),
    error_examples={400: _FOREIGN_HOST},
)
DOCS: Final = _operation(
    "docs",
    "This document, for people",
    "The same as a page without scripts.",
    {
        (200, "text/html"): OpenApiResponse(
            {"type": "string"}, "The page.", [OpenApiExample("page", value="<!doctype html>…")]
        )
    },
    (400, 500),
    error_examples={400: _FOREIGN_HOST},
)


def add_components(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the shapes of the JSON to the generated document (POSTPROCESSING_HOOKS)."""
    schemas = {name: dict(schema) for name, schema in COMPONENTS.items()}
    properties = dict(schemas["Submission"]["properties"])
    properties["jobType"] = properties["jobType"] | {"enum": sorted(registry.known_types())}
    schemas["Submission"]["properties"] = properties
    result.setdefault("components", {})["schemas"] = schemas
    return result


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document of this process's routes and handlers."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    return generator.get_schema(request=None, public=True)  # type: ignore[no-any-return, no-untyped-call]
