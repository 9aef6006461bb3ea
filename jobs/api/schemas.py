"""The shapes of the API's JSON, for the OpenAPI document. Submitted fields come from `FIELDS`."""

from __future__ import annotations

from typing import Any, Final

from jobs.fields import FIELDS, PAUSE_FIELDS
from jobs.lifecycle import Outcome, Status, job_id_for

ID: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": "^[0-9a-f]{24}$",
    "examples": [str(job_id_for("test-job-1"))],
}
_STATUS: Final[dict[str, Any]] = {"type": "string", "enum": [str(status) for status in Status]}


def reference(component: str) -> dict[str, str]:
    """A reference to one of the components."""
    return {"$ref": f"#/components/schemas/{component}"}


def instant(description: str) -> dict[str, Any]:
    return {"type": "string", "format": "date-time", "description": description}


def count(description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "description": description}


SUBMISSION: Final[dict[str, Any]] = {
    "type": "object",
    "description": "A job to be stored: one-off with `scheduledAt`, a template with `cron`.",
    "required": [name for name, field in FIELDS.items() if field.required],
    "oneOf": [{"required": ["scheduledAt"]}, {"required": ["cron"]}],
    "properties": {name: dict(field.schema) for name, field in FIELDS.items()},
    "additionalProperties": False,
}

ATTEMPT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["number", "executor", "startedAt", "finishedAt", "outcome"],
    "properties": {
        "number": {"type": "integer", "minimum": 1, "description": "1 for the first."},
        "executor": {"type": "string", "description": "The process that ran it."},
        "startedAt": instant("When the handler started."),
        "finishedAt": instant("When it ended."),
        "outcome": {
            "type": "string",
            "enum": [str(outcome) for outcome in Outcome],
            "description": "`lost`: its executor disappeared. `snoozed` and `handed_back` cost no"
            " attempt.",
        },
        "error": {"type": "string", "description": "Why it did not succeed."},
        "errorClass": {"type": "string", "description": "Kind of the error."},
        "responseCode": {"type": "integer", "description": "HTTP delivery: the status."},
    },
}

SHOWN_DELIVERY: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Where and how it is delivered, as submitted but for what is secret:"
    " `hasSecret` says that requests are signed, `secretHeaderNames` which secret headers they"
    " carry.",
    "additionalProperties": True,
}

JOB: Final[dict[str, Any]] = {
    "type": "object",
    "description": "A job or template. Fields that do not apply are absent; times are UTC.",
    "required": [
        *("id", "idempotencyKey", "tenantId", "jobType", "priority", "status", "scheduledAt"),
        *("attempts", "maxAttempts", "createdAt", "updatedAt"),
    ],
    "properties": {
        "id": {**ID, "description": "Made from the idempotencyKey, so known before the answer."},
        **{name: dict(field.schema) for name, field in FIELDS.items()},
        "status": {
            **_STATUS,
            "description": "pending → queued → claimed → running → completed; back to pending for"
            " another attempt; dlq when there is none left; cancelled; paused (templates).",
        },
        "attempts": count("Tries that were used up."),
        "createdAt": instant("When it was submitted."),
        "updatedAt": instant("When it last moved."),
        "missed": count("Template: occurrences that passed without a run."),
        "skipped": count("Template: occurrences not run because an earlier run was not over."),
        "pausedReason": {"type": "string", "description": "Paused template: why, for people."},
        "pausedUntil": instant("Paused template: when it goes on by itself; absent: never."),
        "pausedBy": {"type": "string", "description": "Paused template: who paused it."},
        "pausedAt": instant("Paused template: since when."),
        "templateId": {**ID, "description": "Run: the template that spawned it."},
        "occurrenceAt": instant(
            "Run: the occurrence it stands for; absent when asked for by /run."
        ),
        "delivery": SHOWN_DELIVERY,
        "executionId": {
            "type": "string",
            "description": "While it runs: the attempt that it makes, for /v1/executions.",
        },
        "bucket": instant("One-time schedule: the minute that it is due in."),
        "definitionVersion": {"type": "integer", "minimum": 1, "description": "Its version then."},
        "requestId": {"type": "string", "description": "The X-Request-Id that it was made by."},
        "traceparent": {
            "type": "string",
            "description": "W3C Trace Context: the trace that its attempts are part of.",
        },
        "queuedAt": instant("When it was handed to Kafka."),
        "claimedBy": {"type": "string", "description": "The executor that has, or had, it."},
        "claimedAt": instant("When that executor took it."),
        "leaseUntil": instant("Until when its executor holds it without a sign of life."),
        "startedAt": instant("When the last attempt started."),
        "finishedAt": instant("When it ended for good."),
        "expiresAt": instant("When it is deleted, where a retention is set."),
        "lastError": {"type": "string", "description": "Why the last failed attempt failed."},
        "result": {"description": "What the handler returned: any JSON."},
        "history": {
            "type": "array",
            "items": reference("Attempt"),
            "description": "The newest 20 attempts, oldest first.",
        },
        "unreadable": {
            "type": "string",
            "description": "Only where somebody edited the stored document so that it breaks the"
            " rules above: what is wrong. Other fields are then shown as they are stored, and any"
            " may be missing.",
        },
    },
}

ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {"type": "string", "description": "A sentence; of bad input it names the field."},
        "id": {**ID, "description": "409 for a used key: the job that holds it."},
        "status": {**_STATUS, "description": "409 for a wrong state: the job's current status."},
    },
    "additionalProperties": False,
}

BULK_RESULT: Final[dict[str, Any]] = {
    "type": "object",
    "description": "What became of one item.",
    "required": ["status"],
    "properties": {
        "status": {
            "type": "integer",
            "enum": [201, 400, 409],
            "description": "The status that POST /jobs would have answered.",
        },
        "id": {**ID, "description": "201: the new job. 409: the job that holds the key."},
        "error": {"type": "string", "description": "400 and 409: why it was not stored."},
    },
    "additionalProperties": False,
}

PAUSE: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Why a template is paused, and until when. Both may be absent.",
    "properties": {name: dict(field.schema) for name, field in PAUSE_FIELDS.items()},
    "additionalProperties": False,
}

COMPONENTS: Final[dict[str, dict[str, Any]]] = {
    "Submission": SUBMISSION,
    "Pause": PAUSE,
    "Job": JOB,
    "Attempt": ATTEMPT,
    "BulkResult": BULK_RESULT,
    "Error": ERROR,
}
