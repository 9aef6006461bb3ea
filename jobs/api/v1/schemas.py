"""The shapes of the JSON of `/v1`, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jobs.api.schemas import SHOWN_DELIVERY, instant
from jobs.delivery.fields import DELIVERY_FIELDS
from jobs.fields import DEFINITION_FIELDS, FIELDS, Field

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
}
