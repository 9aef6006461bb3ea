"""Jobs made from stored ones, with keys of their own: the run of a template, and a clone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.fields import KEY_LENGTH
from jobs.lifecycle import Job, Status, job_id_for
from jobs.origin import UNKNOWN, Origin

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


def unix_nanoseconds(at: datetime) -> int:
    """An instant as nanoseconds since 1970, exactly: floats would lose the last digits."""
    return (at - _EPOCH) // _MICROSECOND * 1000


def spawn(
    template: Job,
    at: datetime,
    now: datetime,
    occurrence_at: datetime | None,
    origin: Origin = UNKNOWN,
) -> Job:
    """A run of a template. Its key is `<template's key>-run-<unix nanoseconds of at>`.

    Args:
        template: what to copy from.
        at: tells runs of one template apart, and when the run is due; aware UTC. For an occurrence
            the occurrence itself, not the clock: firing it twice gives one run.
        now: when the run is created, aware UTC.
        occurrence_at: the occurrence that is fired; None for a run that a person asked for.
        origin: who asked for it; the template's own does not count.
    """
    key = f"{template.idempotency_key}-run-{unix_nanoseconds(at)}"
    return _like(
        template,
        key,
        due_at=at,
        now=now,
        origin=origin,
        template_id=template.id,
        occurrence_at=occurrence_at,
    )


def clone_of(
    job: Job, mark: str, *, due_at: datetime, now: datetime, origin: Origin = UNKNOWN
) -> Job:
    """A new job that does what another one does. Its key is `<that one's key>-copy-<mark>`.

    Args:
        job: what to copy from; no template. A run's clone is no run: it belongs to no occurrence.
        mark: tells clones of one job apart.
        due_at: when the clone is due, aware UTC.
        now: when it is created, aware UTC.
        origin: who asked for it.
    """
    ending = f"-copy-{mark}"
    key = job.idempotency_key[: KEY_LENGTH - len(ending)] + ending
    return _like(job, key, due_at=due_at, now=now, origin=origin)


def _like(
    job: Job, key: str, *, due_at: datetime, now: datetime, origin: Origin, **own: Any
) -> Job:
    return Job(
        id=job_id_for(key),
        idempotency_key=key,
        tenant_id=job.tenant_id,
        job_type=job.job_type,
        status=Status.PENDING,
        scheduled_at=due_at,
        created_at=now,
        updated_at=now,
        payload=job.payload,
        priority=job.priority,
        max_attempts=job.max_attempts,
        definition=job.definition,
        definition_version=job.definition_version,
        delivery=job.delivery,
        tags=job.tags,
        retry=job.retry,
        timeout_seconds=job.timeout_seconds,
        request_id=origin.request_id,
        traceparent=origin.traceparent,
        **own,
    )
