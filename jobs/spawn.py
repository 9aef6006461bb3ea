"""The run that a template spawns: an ordinary one-off job with a key of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jobs.lifecycle import Job, Status, job_id_for

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


def unix_nanoseconds(at: datetime) -> int:
    """An instant as nanoseconds since 1970, exactly: floats would lose the last digits."""
    return (at - _EPOCH) // _MICROSECOND * 1000


def spawn(template: Job, at: datetime, now: datetime, occurrence_at: datetime | None) -> Job:
    """A run of a template. Its key is `<template's key>-run-<unix nanoseconds of at>`.

    Args:
        template: what to copy from.
        at: tells runs of one template apart, and when the run is due; aware UTC. For an occurrence
            the occurrence itself, not the clock: firing it twice gives one run.
        now: when the run is created, aware UTC.
        occurrence_at: the occurrence that is fired; None for a run that a person asked for.
    """
    key = f"{template.idempotency_key}-run-{unix_nanoseconds(at)}"
    return Job(
        id=job_id_for(key),
        idempotency_key=key,
        tenant_id=template.tenant_id,
        job_type=template.job_type,
        status=Status.PENDING,
        scheduled_at=at,
        created_at=now,
        updated_at=now,
        payload=template.payload,
        priority=template.priority,
        max_attempts=template.max_attempts,
        template_id=template.id,
        occurrence_at=occurrence_at,
        definition=template.definition,
        definition_version=template.definition_version,
        delivery=template.delivery,
        tags=template.tags,
        retry=template.retry,
        timeout_seconds=template.timeout_seconds,
    )
