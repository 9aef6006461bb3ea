"""The shapes of the JSON of `/v1`, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jobs.api.representation import RUNNING
from jobs.api.schemas import ATTEMPT, ID, SHOWN_DELIVERY, instant, reference
from jobs.delivery.fields import DELIVERY_FIELDS
from jobs.fields import DEFINITION_FIELDS, FIELDS, Field
from jobs.lifecycle import Outcome

_SCHEDULE_FIELDS: Final = {
    name: field
    for name, field in FIELDS.items()
    if name != "cron" and name != "jobType" and not field.cron_only
}


def _submitted(
    description: str, fields: Mapping[str, Field], *also_required: str
) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "required": [
            name for name, field in fields.items() if field.required or name in also_required
        ],
        "properties": {name: dict(field.schema) for name, field in fields.items()},
        "additionalProperties": False,
    }


V1_COMPONENTS: Final[dict[str, dict[str, Any]]] = {
    "HttpDelivery": _submitted(
        "The `delivery` of a job or definition of the type `http`.", DELIVERY_FIELDS["http"]
    ),
    "KafkaDelivery": _submitted(
        "The `delivery` of a job or definition of the type `kafka`.", DELIVERY_FIELDS["kafka"]
    ),
    "DefinitionSubmission": _submitted(
        "What to call, and how: what its jobs have where they do not say it themselves.",
        DEFINITION_FIELDS,
    ),
    "Definition": {
        "type": "object",
        "description": "A definition. Fields that were not given are absent; times are UTC.",
        "required": ["name", "tenantId", "version", "jobType", "createdAt", "updatedAt"],
        "properties": {
            **{name: dict(field.schema) for name, field in DEFINITION_FIELDS.items()},
            "delivery": SHOWN_DELIVERY,
            "version": {
                "type": "integer",
                "minimum": 1,
                "description": "Counts up with each change, also when it is deleted and made anew.",
            },
            "createdAt": instant("When its first version was stored."),
            "updatedAt": instant("When this version was stored."),
        },
    },
    "ScheduleSubmission": _submitted(
        "One call at one moment, by a definition.", _SCHEDULE_FIELDS, "definition", "scheduledAt"
    ),
    "Reschedule": _submitted(
        "The new time of a schedule.", {"scheduledAt": FIELDS["scheduledAt"]}, "scheduledAt"
    ),
    "Execution": {
        "type": "object",
        "description": "One attempt at running a job. Fields that do not apply are absent.",
        "required": [
            *("id", "jobId", "tenantId", "jobType", "attempt", "executor", "startedAt", "outcome")
        ],
        "properties": {
            "id": {"type": "string", "description": "The job's id and that of the claim on it."},
            "jobId": {**ID, "description": "The job."},
            "tenantId": {"type": "string", "description": "Whose."},
            "jobType": {"type": "string", "description": "Its type."},
            "templateId": {**ID, "description": "The template that spawned the job."},
            "definition": {"type": "string", "description": "What the job was made from."},
            "attempt": ATTEMPT["properties"]["number"],
            "executor": ATTEMPT["properties"]["executor"],
            "startedAt": ATTEMPT["properties"]["startedAt"],
            "finishedAt": instant("When it ended; absent while it is running."),
            "durationMs": {"type": "integer", "description": "From start to end."},
            "outcome": {
                "type": "string",
                "enum": [*map(str, Outcome), RUNNING],
                "description": "How it ended. `cancelled`: a person cancelled the job meanwhile.",
            },
            "responseCode": ATTEMPT["properties"]["responseCode"],
            "responseExcerpt": {
                "type": "string",
                "description": "The beginning of what the target answered; not in lists.",
            },
            "errorClass": ATTEMPT["properties"]["errorClass"],
            "error": ATTEMPT["properties"]["error"],
        },
    },
    "ExecutionLog": {
        "type": "object",
        "description": "What an attempt logged, oldest line first.",
        "required": ["executionId", "lines"],
        "properties": {
            "executionId": {"type": "string", "description": "The attempt."},
            "lines": {
                "type": "array",
                "items": reference("LogLine"),
                "description": "Those that are kept.",
            },
            "truncated": {
                "type": "boolean",
                "description": "True: it logged more; the last line says how much.",
            },
        },
    },
    "LogLine": {
        "type": "object",
        "required": ["at", "level", "logger", "message"],
        "properties": {
            "at": instant("When it was logged."),
            "level": {"type": "string", "description": "Such as INFO."},
            "logger": {"type": "string", "description": "Name of the logger."},
            "message": {"type": "string", "description": "With the traceback, if there is one."},
        },
    },
}
