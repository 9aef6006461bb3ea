"""How the operations of `/v1/definitions` and `/v1/schedules` are described."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import OpenApiExample, OpenApiParameter

from jobs.api.operation import (
    ERRORS,
    ID_PARAMETER,
    ORIGIN,
    USED_KEY,
    header,
    json_response,
    list_parameters,
    operation,
)
from jobs.api.query import DEFINITION_PARAMETERS, ONE_PARAMETERS, SCHEDULE_PARAMETERS
from jobs.api.schemas import reference
from jobs.lifecycle import job_id_for

_SUBMITTED: Final[dict[str, Any]] = {
    "name": "send-invoice",
    "tenantId": "tenant-a",
    "jobType": "http",
    "delivery": {
        "url": "https://example.com/invoices",
        "headers": {"X-Team": "billing"},
        "secretHeaders": {"Authorization": "Bearer t0ken"},
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "timeoutSeconds": 10,
    },
    "retry": {"strategy": "exponential", "base": 2, "cap": 600, "terminalStatuses": [501]},
    "maxAttempts": 5,
    "tags": ["billing"],
}
_DEFINITION: Final = {
    "name": "send-invoice",
    "tenantId": "tenant-a",
    "version": 1,
    "jobType": "http",
    "delivery": {
        "url": "https://example.com/invoices",
        "headers": {"X-Team": "billing"},
        "timeoutSeconds": 10,
        "hasSecret": True,
        "secretHeaderNames": ["Authorization"],
    },
    "maxAttempts": 5,
    "retry": {"strategy": "exponential", "base": 2, "cap": 600, "terminalStatuses": [501]},
    "tags": ["billing"],
    "createdAt": "2026-09-29T17:00:00Z",
    "updatedAt": "2026-09-29T17:00:00Z",
}
_CHANGED: Final = {**_DEFINITION, "version": 2, "updatedAt": "2026-09-29T17:30:00Z"}
_TO_SCHEDULE: Final[dict[str, Any]] = {
    "idempotencyKey": "test-job-1",
    "tenantId": "tenant-a",
    "definition": "send-invoice",
    "scheduledAt": "2026-09-29T18:00:30Z",
    "payload": {"invoiceId": 17},
    "delivery": {"headers": {"X-Request": "17"}},
    "tags": ["september"],
}
_SCHEDULE: Final = {
    "id": str(job_id_for("test-job-1")),
    "idempotencyKey": "test-job-1",
    "tenantId": "tenant-a",
    "jobType": "http",
    "payload": {"invoiceId": 17},
    "priority": 0,
    "status": "pending",
    "scheduledAt": "2026-09-29T18:00:30Z",
    "bucket": "2026-09-29T18:00:00Z",
    "definition": "send-invoice",
    "definitionVersion": 1,
    "delivery": {
        **_DEFINITION["delivery"],  # type: ignore[dict-item]
        "headers": {"X-Team": "billing", "X-Request": "17"},
    },
    "retry": _DEFINITION["retry"],
    "tags": ["billing", "september"],
    "attempts": 0,
    "maxAttempts": 5,
    "createdAt": "2026-09-29T17:59:00.123Z",
    "updatedAt": "2026-09-29T17:59:00.123Z",
}

_NO_DEFINITION: Final = (
    "The tenant has no definition of this name.",
    {"error": "the tenant has no definition 'send-invoice'"},
)
_NO_SCHEDULE: Final = {"error": f"no schedule has the id {job_id_for('test-job-1')}"}
_ETAG: Final = header("ETag", "The version, in quotes: what If-Match takes.", 200, 201)
_LOCATION: Final = header("Location", "The address of what was stored.", 201)
_IF_MATCH: Final = OpenApiParameter(
    "If-Match",
    type={"type": "string", "pattern": '^(\\*|"[0-9]+")$'},
    location=OpenApiParameter.HEADER,
    description="The only version that may be changed, as an ETag; absent: whichever is current.",
    examples=[OpenApiExample("version", value='"1"')],
)
_IF_NONE_MATCH: Final = OpenApiParameter(
    "If-None-Match",
    type={"type": "string", "const": "*"},
    location=OpenApiParameter.HEADER,
    description="With `*`: only if there is no definition of this name yet.",
    examples=[OpenApiExample("only new", value="*")],
)
_NAME: Final = OpenApiParameter(
    "name",
    type={"type": "string"},
    location=OpenApiParameter.PATH,
    description="Name of the definition.",
    examples=[OpenApiExample("name", value="send-invoice")],
)
_ONE: Final = [
    _NAME,
    *(
        parameter
        for parameter in list_parameters(ONE_PARAMETERS)
        if parameter.location == OpenApiParameter.QUERY
    ),
]
_DEFINITION_404: Final = json_response(
    _NO_DEFINITION[0], reference("Error"), ("error", _NO_DEFINITION[1])
)
_TAG: Final = "definitions"

CREATE_DEFINITION: Final = operation(
    "createDefinition",
    "Create a definition",
    "Says once what to call and how. Its secrets are encrypted at rest and never shown again.",
    {
        201: json_response("It, as stored.", reference("Definition"), ("definition", _DEFINITION)),
        409: json_response(
            "The tenant has one of this name already.",
            reference("Error"),
            (
                "error",
                {"error": "the tenant has a definition 'send-invoice' already; PUT replaces it"},
            ),
        ),
    },
    (400, 413, 415, 500, 503),
    body=reference("DefinitionSubmission"),
    parameters=[_LOCATION, header("ETag", "The version, in quotes.", 201)],
    examples=[("http", _SUBMITTED)],
    error_examples={400: {"error": "delivery.url is required"}},
    tag=_TAG,
)
LIST_DEFINITIONS: Final = operation(
    "listDefinitions",
    "List a tenant's definitions",
    "Their current versions, newest first.",
    {
        200: json_response(
            "One page of them.",
            {"type": "array", "items": reference("Definition")},
            ("definitions", [_DEFINITION]),
        )
    },
    (400, 500, 503),
    parameters=list_parameters(DEFINITION_PARAMETERS),
    error_examples={400: {"error": "tenantId is required"}},
    tag=_TAG,
)
GET_DEFINITION: Final = operation(
    "getDefinition",
    "Get a definition",
    "Its current version.",
    {
        200: json_response("It.", reference("Definition"), ("definition", _DEFINITION)),
        404: _DEFINITION_404,
    },
    (400, 500, 503),
    parameters=[*_ONE, header("ETag", "The version, in quotes: what If-Match takes.", 200)],
    error_examples={400: {"error": "tenantId is required"}},
    tag=_TAG,
)
PUT_DEFINITION: Final = operation(
    "putDefinition",
    "Create or replace a definition",
    "Stores the next version. Jobs that are scheduled already keep what they were made with;"
    " templates use it from their next firing on. `secret` and single `secretHeaders` stay as they"
    " are where the body leaves them out, and are removed by null; they stay with their origin."
    " What GET shows may be sent back. The job type cannot change.",
    {
        200: json_response("The new version.", reference("Definition"), ("definition", _CHANGED)),
        201: json_response(
            "The first version.", reference("Definition"), ("definition", _DEFINITION)
        ),
    },
    (400, 412, 413, 415, 500, 503),
    body=reference("DefinitionSubmission"),
    parameters=[*_ONE, _IF_MATCH, _IF_NONE_MATCH, _LOCATION, _ETAG],
    examples=[("http", _SUBMITTED)],
    error_examples={400: {"error": "delivery.url is required"}},
    tag=_TAG,
)
DELETE_DEFINITION: Final = operation(
    "deleteDefinition",
    "Delete a definition",
    "Jobs that were made from it go on. Refused while a pending or paused template uses it.",
    {
        200: json_response("What was deleted.", reference("Definition"), ("it", _DEFINITION)),
        404: _DEFINITION_404,
        409: json_response(
            "A template uses it.",
            reference("Error"),
            (
                "error",
                {
                    "error": f"template {job_id_for('test-job-1')} uses the definition"
                    " 'send-invoice': cancel it first"
                },
            ),
        ),
    },
    (400, 412, 500, 503),
    parameters=[*_ONE, _IF_MATCH],
    error_examples={400: {"error": "tenantId is required"}},
    tag=_TAG,
)

_SCHEDULES: Final = "schedules"
SCHEDULE: Final = operation(
    "schedule",
    "Schedule one call",
    "Stores a job that is due once, made from a definition. It is a job like others: its id works"
    " under /jobs as well.",
    {
        201: json_response("The stored schedule.", reference("Job"), ("schedule", _SCHEDULE)),
        409: json_response(USED_KEY[0], reference("Error"), ("used key", USED_KEY[1])),
    },
    (400, 413, 415, 500, 503),
    body=reference("ScheduleSubmission"),
    parameters=[*ORIGIN, _LOCATION],
    examples=[("schedule", _TO_SCHEDULE)],
    error_examples={400: {"error": 'definition names none of this tenant: "sendinvoice"'}},
    tag=_SCHEDULES,
)
SCHEDULE_MANY: Final = operation(
    "scheduleMany",
    "Schedule many calls at once",
    "Up to 1,000 schedules in one body of up to 16 MiB. Each item is judged alone.",
    {
        200: json_response(
            "One result for each item, in order.",
            {"type": "array", "items": reference("BulkResult")},
            (
                "results",
                [
                    {"status": 201, "id": _SCHEDULE["id"]},
                    {"status": 400, "error": "definition is required"},
                ],
            ),
        )
    },
    (400, 413, 415, 500, 503),
    body={"type": "array", "maxItems": 1000, "items": reference("ScheduleSubmission")},
    parameters=ORIGIN,
    examples=[("one schedule", [_TO_SCHEDULE])],
    error_examples={
        400: {"error": "body must be an array of jobs, not an object"},
        413: {"error": "the body must not be larger than 16 MiB"},
    },
    tag=_SCHEDULES,
)
LIST_SCHEDULES: Final = operation(
    "listSchedules",
    "List a tenant's schedules",
    "One-time schedules, the latest due first. One that is retried or rescheduled changes its place"
    " in this order.",
    {
        200: json_response(
            "One page of them.",
            {"type": "array", "items": reference("Job")},
            ("schedules", [_SCHEDULE]),
        )
    },
    (400, 500, 503),
    parameters=list_parameters(SCHEDULE_PARAMETERS),
    error_examples={400: {"error": "tenantId is required"}},
    tag=_SCHEDULES,
)
GET_SCHEDULE: Final = operation(
    "getSchedule",
    "Get a schedule",
    "Its current state.",
    {200: json_response("The schedule.", reference("Job"), ("schedule", _SCHEDULE))},
    (400, 404, 500, 503),
    parameters=[ID_PARAMETER],
    error_examples={404: _NO_SCHEDULE},
    tag=_SCHEDULES,
)
RESCHEDULE: Final = operation(
    "reschedule",
    "Reschedule a pending schedule",
    "Gives it another time, while it is pending; that may also be while it waits for a retry.",
    {
        200: json_response(
            "The schedule as it is now.",
            reference("Job"),
            (
                "schedule",
                {
                    **_SCHEDULE,
                    "scheduledAt": "2026-09-30T08:00:00Z",
                    "bucket": "2026-09-30T08:00:00Z",
                },
            ),
        )
    },
    (400, 404, 409, 413, 415, 500, 503),
    body=reference("Reschedule"),
    parameters=[ID_PARAMETER],
    examples=[("tomorrow", {"scheduledAt": "2026-09-30T08:00:00Z"})],
    error_examples={
        400: {"error": "scheduledAt is required"},
        404: _NO_SCHEDULE,
        409: {
            "error": f"job {_SCHEDULE['id']} is completed and cannot be rescheduled",
            "status": "completed",
        },
    },
    tag=_SCHEDULES,
)
CANCEL_SCHEDULE: Final = operation(
    "cancelSchedule",
    "Cancel a schedule",
    "Stops it for good, unless it is over already. The schedule stays, as cancelled.",
    {
        200: json_response(
            "The schedule as it is now.",
            reference("Job"),
            (
                "schedule",
                {**_SCHEDULE, "status": "cancelled", "finishedAt": "2026-09-29T17:59:30Z"},
            ),
        )
    },
    (400, 404, 409, 500, 503),
    parameters=[ID_PARAMETER],
    error_examples={404: _NO_SCHEDULE, 409: ERRORS[409][1]},
    tag=_SCHEDULES,
)
