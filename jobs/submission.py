"""A submitted document becomes a job or definition, or a sentence that names the field at fault."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from jobs import cron
from jobs.definitions import (
    Definition,
    Definitions,
    combined,
    named,
    overrides_text,
    own_values,
)
from jobs.delivery.config import (
    DELIVERY_TYPES,
    HTTP,
    decoded,
    delivery_from,
    delivery_text,
    require_complete,
)
from jobs.delivery.secrets import Secrets
from jobs.errors import InvalidJob
from jobs.fields import (
    DEFINITION_FIELDS,
    FIELDS,
    MAX_ATTEMPTS,
    PAUSE_FIELDS,
    Field,
    check_key,
)
from jobs.json_text import kind_of
from jobs.lifecycle import CatchUp, Job, Overlap, Status, job_id_for
from jobs.origin import UNKNOWN, Origin
from jobs.retry import STATUS_FIELDS
from jobs.wording import shown, unknown_name

_CRON_FIELDS: Final = ("cron", *(name for name, each in FIELDS.items() if each.cron_only))
_TEMPLATE_DEFAULTS: Final[dict[str, Any]] = {
    "catch_up": CatchUp.ONE,
    "overlap": Overlap.ALLOW,
    "missed": 0,
    "skipped": 0,
}


@dataclass(frozen=True)
class Catalog:
    """What a submitted document may refer to."""

    job_types: Collection[str]
    """The types that have a handler, and the deliveries."""
    secrets: Secrets = field(default_factory=lambda: Secrets(()))
    definitions: Definitions = field(default_factory=dict)
    """Those that the documents name and that exist."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Why a template is paused, and until when."""

    reason: str | None = None
    until: datetime | None = None
    """None: until somebody resumes it."""


def definition_named(document: object) -> tuple[str, str] | None:
    """Tenant and name of the definition that a document asks for, where it does in a usable way."""
    if isinstance(document, dict) and "definition" in document:
        try:
            return check_key(document.get("tenantId")), check_key(document["definition"])
        except ValueError:
            # `job_from` says what is wrong.
            pass
    return None


def job_from(document: object, *, now: datetime, catalog: Catalog, origin: Origin = UNKNOWN) -> Job:
    """The pending job or template that a decoded JSON document asks for.

    Args:
        document: what a client sent.
        now: when the job is created; a template's first occurrence is later.
        catalog: what it may refer to.
        origin: who asks for it.

    Raises:
        InvalidJob: the document breaks a rule.
    """
    values = _checked(document, FIELDS, "job")
    if "definition" in values:
        definition = _definition(values, catalog)
        own = own_values(_delivered(values, definition.job_type, catalog))
        if "cron" in values:
            values["overrides"] = overrides_text(own)
        values |= combined(definition, own)
    else:
        if "job_type" not in values:
            raise InvalidJob("jobType", "is required unless definition is given")
        values = _delivered(values, _known(values["job_type"], catalog), catalog)
        _require_delivery(values)
    if "cron" in values:
        if "scheduled_at" in values:
            raise InvalidJob("scheduledAt", "must be absent when cron is given")
        schedule = cron.parse(values["cron"], values.get("timezone"))
        values = _TEMPLATE_DEFAULTS | values | {"scheduled_at": schedule.next_after(now)}
    else:
        for name in _CRON_FIELDS:
            if FIELDS[name].attribute in values:
                raise InvalidJob(name, "is only for jobs with cron")
        if "scheduled_at" not in values:
            raise InvalidJob("scheduledAt", "is required unless cron is given")
    return Job(
        id=job_id_for(values["idempotency_key"]),
        status=Status.PENDING,
        created_at=now,
        updated_at=now,
        request_id=origin.request_id,
        traceparent=origin.traceparent,
        **values,
    )


def schedule_from(
    document: object, *, now: datetime, catalog: Catalog, origin: Origin = UNKNOWN
) -> Job:
    """The job that a one-time schedule asks for: made from a definition, and never a template.

    Raises:
        InvalidJob: the document breaks a rule.
    """
    if isinstance(document, dict):
        for name in _CRON_FIELDS:
            if name in document:
                raise InvalidJob(name, "is not for schedules: submit a template to /jobs")
        if "definition" not in document:
            raise InvalidJob("definition", "is required")
    return job_from(document, now=now, catalog=catalog, origin=origin)


def due_at_from(document: object) -> datetime:
    """The new time of a schedule, from a decoded JSON document with `scheduledAt` alone.

    Raises:
        InvalidJob: the document breaks a rule.
    """
    field = replace(FIELDS["scheduledAt"], required=True)
    due_at: datetime = _checked(document, {"scheduledAt": field}, "change")[field.attribute]
    return due_at


def pause_from(document: object, *, now: datetime) -> Pause:
    """The pause of a template that a decoded JSON document asks for.

    Raises:
        InvalidJob: the document breaks a rule.
    """
    values = _checked(document, PAUSE_FIELDS, "pause")
    if "until" in values and values["until"] <= now:
        raise InvalidJob("until", "must be in the future")
    return Pause(values.get("reason") or None, values.get("until"))


def definition_from(document: object, *, now: datetime, catalog: Catalog) -> Definition:
    """The first version of the definition that a decoded JSON document asks for.

    Raises:
        InvalidJob: the document breaks a rule.
    """
    values = _checked(document, DEFINITION_FIELDS, "definition")
    values = _delivered(values, _known(values["job_type"], catalog), catalog)
    _require_delivery(values)
    return Definition(version=1, created_at=now, updated_at=now, **values)


def _checked(document: object, fields: Mapping[str, Field], noun: str) -> dict[str, Any]:
    """The values of a document, by attribute."""
    if not isinstance(document, dict):
        raise InvalidJob("", f"a {noun} must be an object, not {kind_of(document)}")
    values: dict[str, Any] = {}
    for name, value in document.items():
        each = fields.get(name)
        if each is None:
            only = f"; its only one is {next(iter(fields))}" if len(fields) == 1 else ""
            sentence = f"{{}} is not a field of a {noun}{only}"
            raise InvalidJob("", unknown_name(name, fields, sentence))
        try:
            values[each.attribute] = each.check(value)
        except ValueError as exc:
            raise InvalidJob(name, str(exc)) from exc
    for name, each in fields.items():
        if each.required and name not in document:
            raise InvalidJob(name, "is required")
    if "retry" in values:
        _lift_max_attempts(values)
    return values


def _lift_max_attempts(values: dict[str, Any]) -> None:
    """A retry policy may say `maxAttempts` as well; it is kept beside it."""
    policy = dict(values["retry"])
    if MAX_ATTEMPTS in policy:
        number = FIELDS[MAX_ATTEMPTS].check(policy.pop(MAX_ATTEMPTS))
        if values.setdefault("max_attempts", number) != number:
            raise InvalidJob(f"retry.{MAX_ATTEMPTS}", "contradicts maxAttempts")
        values["retry"] = policy


def _known(job_type: str, catalog: Catalog) -> str:
    if job_type not in catalog.job_types:
        known = ", ".join(sorted(catalog.job_types))
        raise InvalidJob("jobType", f"must be one of {known}, not {shown(job_type)}")
    return job_type


def _definition(values: Mapping[str, Any], catalog: Catalog) -> Definition:
    definition = named(catalog.definitions, values["tenant_id"], values["definition"])
    if values.get("job_type", definition.job_type) != definition.job_type:
        raise InvalidJob("jobType", f"must be {definition.job_type}, as in the definition")
    return definition


def _delivered(values: dict[str, Any], job_type: str, catalog: Catalog) -> dict[str, Any]:
    """The values with their `delivery` as it is stored, sealed and perhaps partial."""
    if job_type != HTTP and any(name in values.get("retry", ()) for name in STATUS_FIELDS):
        raise InvalidJob("retry", "can name statuses only for jobType http")
    if "delivery" not in values:
        return values
    if job_type not in DELIVERY_TYPES:
        raise InvalidJob("delivery", f"is only for jobType {' and '.join(sorted(DELIVERY_TYPES))}")
    delivery = delivery_from(job_type, values["delivery"], catalog.secrets)
    return values | {"delivery": delivery_text(delivery)}


def _require_delivery(values: Mapping[str, Any]) -> None:
    if values["job_type"] in DELIVERY_TYPES:
        if "delivery" not in values:
            raise InvalidJob("delivery", f"is required for jobType {values['job_type']}")
        require_complete(values["job_type"], decoded(values["delivery"]))
