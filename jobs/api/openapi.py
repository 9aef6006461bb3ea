"""The OpenAPI document: what each operation takes and answers, with an example of everything."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import OpenApiExample, OpenApiResponse

from jobs import registry
from jobs.api.operation import (
    ERRORS,
    FOREIGN_HOST,
    ID_PARAMETER,
    JOB_ID,
    LOCATION,
    ORIGIN,
    USED_KEY,
    Operation,
    json_response,
    list_parameters,
    operation,
)
from jobs.api.query import JOB_PARAMETERS
from jobs.api.schemas import COMPONENTS, reference
from jobs.api.v1.schemas import V1_COMPONENTS
from jobs.lifecycle import job_id_for

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
    "requestId": "0af7651916cd43dd",
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


def _action(
    verb: str, summary: str, description: str, example: dict[str, Any], refusal: dict[str, Any]
) -> Operation:
    return operation(
        f"{verb}Job",
        summary,
        f"{description} Takes no body.",
        {200: json_response("The job as it is now.", reference("Job"), ("job", example))},
        (400, 404, 409, 500, 503),
        parameters=[ID_PARAMETER],
        error_examples={409: refusal},
    )


def _is_no_template(verb: str) -> dict[str, Any]:
    return {"error": f"job {JOB_ID} is no template and cannot be {verb}", "status": "pending"}


SUBMIT: Final = operation(
    "submitJob",
    "Submit a job or template",
    "Stores a one-off job (`scheduledAt`) or a recurring template (`cron`). 201 means that it is"
    " stored, not that it has run.",
    {
        201: json_response(
            "The stored job.",
            reference("Job"),
            ("one-off", _PENDING),
            ("recurring", _TEMPLATE),
        ),
        409: json_response(USED_KEY[0], reference("Error"), ("used key", USED_KEY[1])),
    },
    (400, 413, 415, 500, 503),
    body=reference("Submission"),
    parameters=[*ORIGIN, LOCATION],
    examples=[("one-off", ONE_OFF), ("recurring", RECURRING)],
    error_examples={400: {"error": 'priority must be an integer of 32 bits, not "high"'}},
)
SUBMIT_MANY: Final = operation(
    "submitJobs",
    "Submit many jobs at once",
    "Up to 1,000 jobs in one body of up to 16 MiB, stored by one insert. Each item is judged alone:"
    " a bad one does not keep the others from being stored.",
    {
        200: json_response(
            "One result for each item, in order.",
            {"type": "array", "items": reference("BulkResult")},
            (
                "results",
                [
                    {"status": 201, "id": JOB_ID},
                    {"status": 400, "error": "tenantId is required"},
                    {"status": 409, **USED_KEY[1]},
                ],
            ),
        )
    },
    (400, 413, 415, 500, 503),
    body={"type": "array", "maxItems": 1000, "items": reference("Submission")},
    parameters=ORIGIN,
    examples=[("two jobs", [ONE_OFF, RECURRING])],
    error_examples={
        400: {"error": "body must be an array of jobs, not an object"},
        413: {"error": "the body must not be larger than 16 MiB"},
    },
)
LIST: Final = operation(
    "listJobs",
    "List a tenant's jobs",
    "Jobs, templates and runs, newest first, as a bare array. Unknown parameters are refused; an"
    " empty value counts as absent.",
    {
        200: json_response(
            "One page of them.",
            {"type": "array", "items": reference("Job")},
            ("jobs", [_COMPLETED]),
        )
    },
    (400, 500, 503),
    parameters=list_parameters(JOB_PARAMETERS),
    error_examples={400: {"error": '"statsu" is not a parameter here; did you mean "status"?'}},
)
GET: Final = operation(
    "getJob",
    "Get a job",
    "The job's current state.",
    {200: json_response("The job.", reference("Job"), ("job", _COMPLETED))},
    (400, 404, 500, 503),
    parameters=[ID_PARAMETER],
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
    ERRORS[409][1],
)
REDRIVE: Final = _action(
    "redrive",
    "Redrive a dead letter or a cancelled job",
    "dlq or cancelled → pending with all attempts again: a job is due at once, a template at its"
    " next occurrence.",
    {**_PENDING, "scheduledAt": "2026-09-29T18:05:00Z", "updatedAt": "2026-09-29T18:05:00Z"},
    {"error": f"job {JOB_ID} is completed and cannot be redriven", "status": "completed"},
)
PAUSE: Final = operation(
    "pauseJob",
    "Pause a template",
    "No occurrence is run until it is resumed, by a person or at the end that the body gives. The"
    " body may be absent. 409 for a job that is no template.",
    {
        200: json_response(
            "The template as it is now.",
            reference("Job"),
            (
                "template",
                {
                    **_TEMPLATE,
                    "status": "paused",
                    "pausedReason": "The billing service moves to another host.",
                    "pausedUntil": "2026-09-30T06:00:00Z",
                    "pausedBy": "API client",
                    "pausedAt": "2026-09-29T18:05:00Z",
                    "updatedAt": "2026-09-29T18:05:00Z",
                },
            ),
        )
    },
    (400, 404, 409, 413, 415, 500, 503),
    body=reference("Pause"),
    examples=[
        (
            "with an end",
            {
                "reason": "The billing service moves to another host.",
                "until": "2026-09-30T06:00:00Z",
            },
        )
    ],
    parameters=[ID_PARAMETER],
    error_examples={
        400: {"error": "until must be in the future"},
        409: _is_no_template("paused"),
    },
)
RESUME: Final = _action(
    "resume",
    "Resume a template",
    "Goes on with the next occurrence; those that passed meanwhile are not run. 409 for a job that"
    " is no template.",
    {**_TEMPLATE, "updatedAt": "2026-09-29T18:06:00Z"},
    _is_no_template("resumed"),
)
RUN: Final = operation(
    "runJob",
    "Run a template now",
    "Spawns one run beside the template's occurrences, also while it is paused. Takes no body."
    " Repeating the request spawns another run. 409 for a job that is no template.",
    {201: json_response("The run.", reference("Job"), ("run", _RUN))},
    (400, 404, 409, 500, 503),
    parameters=[ID_PARAMETER, *ORIGIN, LOCATION],
    error_examples={409: _is_no_template("run")},
)
HEALTH: Final = operation(
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
OPENAPI: Final = operation(
    "openapi",
    "This document",
    "The API in OpenAPI 3.1.",
    {
        200: json_response(
            "The document.", {"type": "object"}, ("document", {"openapi": "3.1.0", "paths": {}})
        )
    },
    (400, 500),
    error_examples={400: FOREIGN_HOST},
)
DOCS: Final = operation(
    "docs",
    "This document, for people",
    "The same as a page without scripts.",
    {
        (200, "text/html"): OpenApiResponse(
            {"type": "string"}, "The page.", [OpenApiExample("page", value="<!doctype html>…")]
        )
    },
    (400, 500),
    error_examples={400: FOREIGN_HOST},
)


ALL_COMPONENTS: Final = COMPONENTS | V1_COMPONENTS


def add_components(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the shapes of the JSON to the generated document (POSTPROCESSING_HOOKS)."""
    schemas = {name: dict(schema) for name, schema in ALL_COMPONENTS.items()}
    for name in ("Submission", "DefinitionSubmission"):
        properties = dict(schemas[name]["properties"])
        properties["jobType"] = properties["jobType"] | {"enum": sorted(registry.known_types())}
        schemas[name]["properties"] = properties
    result.setdefault("components", {})["schemas"] = schemas
    return result


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document of this process's routes and handlers."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    return generator.get_schema(request=None, public=True)  # type: ignore[no-any-return, no-untyped-call]
