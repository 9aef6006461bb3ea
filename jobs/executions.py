"""The record of attempts: one execution for each try at running a job, kept apart from the job.

A job's `history` holds its newest attempts; an execution holds more of each, and stays when newer
ones push it out or when the job is redriven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bson import ObjectId

from jobs.lifecycle import Attempt, Finish, Job, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One attempt, with what it takes to find it without its job."""

    id: str
    job_id: ObjectId
    tenant_id: str
    job_type: str
    attempt: Attempt
    template_id: ObjectId | None = None
    definition: str | None = None
    due_at: datetime | None = None
    """What the attempt had waited for; the job itself holds only the times of the next one."""
    queued_at: datetime | None = None
    claimed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that was logged during an attempt."""

    at: datetime
    level: str
    logger: str
    message: str


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """What an attempt logged, oldest line first."""

    lines: Sequence[LogLine]
    is_truncated: bool
    """It logged more than is kept; the last line says how much."""


def execution_id(job_id: ObjectId, claim_id: str) -> str:
    """The id of the attempt under a claim: `<job id>-<claim id>`.

    Known before the attempt begins and the same for whoever records its end, so an attempt is
    recorded once. All of a job's executions are one range of ids.
    """
    return f"{job_id}-{claim_id}"


def execution_of(job: Job, finish: Finish) -> Execution:
    """The record of an attempt that has ended.

    Args:
        job: as it was claimed.
        finish: what the end makes of it.
    """
    return _execution(job, finish.claim_id, finish.attempt)


def cancelled_execution(job: Job, now: datetime) -> Execution:
    """The record of the attempt that a person cut short by cancelling its job.

    Args:
        job: as it was, running.
        now: aware UTC.
    """
    attempt = Attempt(
        number=job.attempts + 1,
        executor=job.claimed_by or "",
        started_at=job.started_at or now,
        finished_at=now,
        outcome=Outcome.CANCELLED,
    )
    return _execution(job, job.claim_id or "", attempt)


def _execution(job: Job, claim_id: str, attempt: Attempt) -> Execution:
    return Execution(
        id=execution_id(job.id, claim_id),
        job_id=job.id,
        tenant_id=job.tenant_id,
        job_type=job.job_type,
        attempt=attempt,
        template_id=job.template_id,
        definition=job.definition,
        due_at=job.scheduled_at,
        queued_at=job.queued_at,
        claimed_at=job.claimed_at,
    )
