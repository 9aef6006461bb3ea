"""A submitted document becomes a job, or a sentence that names the field at fault."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from jobs import cron
from jobs.errors import InvalidJob
from jobs.fields import FIELDS, shown
from jobs.json_text import kind_of
from jobs.lifecycle import CatchUp, Job, Overlap, Status, job_id_for

_REQUIRED: Final = tuple(name for name, field in FIELDS.items() if field.required)
_CRON_ONLY: Final = tuple(name for name, field in FIELDS.items() if field.cron_only)
# Comparing a long name with all others would take long.
_LONGEST_HINTED: Final = 60
_TEMPLATE_DEFAULTS: Final[dict[str, Any]] = {
    "catch_up": CatchUp.ONE,
    "overlap": Overlap.ALLOW,
    "missed": 0,
    "skipped": 0,
}


def job_from(document: object, *, now: datetime, job_types: Collection[str]) -> Job:
    """The pending job or template that a decoded JSON document asks for.

    Args:
        document: what a client sent.
        now: when the job is created; a template's first occurrence is later.
        job_types: the types that have a handler.

    Raises:
        InvalidJob: the document breaks a rule.
    """
    if not isinstance(document, dict):
        raise InvalidJob("", f"a job must be an object, not {kind_of(document)}")
    values: dict[str, Any] = {}
    for name, value in document.items():
        field = FIELDS.get(name)
        if field is None:
            raise InvalidJob("", _unknown_field(name))
        try:
            values[field.attribute] = field.check(value)
        except ValueError as exc:
            raise InvalidJob(name, str(exc)) from exc
    for name in _REQUIRED:
        if name not in document:
            raise InvalidJob(name, "is required")
    job_type = values["job_type"]
    if job_type not in job_types:
        known = ", ".join(sorted(job_types))
        raise InvalidJob("jobType", f"must be one of {known}, not {shown(job_type)}")
    if "cron" in values:
        if "scheduled_at" in values:
            raise InvalidJob("scheduledAt", "must be absent when cron is given")
        schedule = cron.parse(values["cron"], values.get("timezone"))
        values = _TEMPLATE_DEFAULTS | values | {"scheduled_at": schedule.next_after(now)}
    else:
        for name in _CRON_ONLY:
            if name in document:
                raise InvalidJob(name, "is only for jobs with cron")
        if "scheduled_at" not in values:
            raise InvalidJob("scheduledAt", "is required unless cron is given")
    return Job(
        id=job_id_for(values["idempotency_key"]),
        status=Status.PENDING,
        created_at=now,
        updated_at=now,
        **values,
    )


def _unknown_field(name: str) -> str:
    by_lower = {known.lower(): known for known in FIELDS}
    wanted = name[:_LONGEST_HINTED].lower().replace("_", "").replace("-", "")
    close = difflib.get_close_matches(wanted, by_lower, n=1)
    hint = f'; did you mean "{by_lower[close[0]]}"?' if close else ""
    return f"{shown(name)} is not a field of a job{hint}"
