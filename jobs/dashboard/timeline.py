"""What happened to a job, in order: from its document, its attempts and what people did to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from jobs.audit import Entry
from jobs.executions import Execution
from jobs.lifecycle import IN_FLIGHT, Job, Status


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, or that is still to come."""

    at: datetime
    what: str
    by: str = ""
    """An executor or a person; "": nobody in particular."""
    after: timedelta | None = None
    """How long after the event before; None: it is the first."""
    is_ahead: bool = False


def timeline(
    job: Job, executions: Sequence[Execution], entries: Sequence[Entry], now: datetime
) -> list[Event]:
    """The events of a job, the first one first.

    Args:
        job: it.
        executions: its attempts that have ended.
        entries: of the audit log, about it.
        now: aware UTC; what is later is still to come.
    """
    events = [
        *_beginning(job),
        *_of_attempts(executions),
        *_of_people(entries),
        *_end(job),
    ]
    # An end within the same millisecond stays behind its beginning: the sort is stable.
    events.sort(key=lambda event: event.at)
    before: datetime | None = None
    shown = []
    for event in events:
        after = None if before is None else event.at - before
        shown.append(replace(event, after=after, is_ahead=event.at > now))
        before = event.at
    return shown


def _beginning(job: Job) -> Iterator[Event]:
    yield Event(job.created_at, "created")
    # An attempt that ended moves the due time on to the next one.
    yield Event(job.scheduled_at, "due again" if job.attempts else "due")
    if job.queued_at is not None:
        yield Event(job.queued_at, "queued, and its executors were woken")
    if job.status in IN_FLIGHT and job.claimed_at is not None:
        yield Event(job.claimed_at, "claimed", job.claimed_by or "")
    if job.status is Status.RUNNING and job.started_at is not None:
        yield Event(job.started_at, f"attempt {job.attempts + 1} began", job.claimed_by or "")


def _of_attempts(executions: Sequence[Execution]) -> Iterator[Event]:
    for execution in reversed(executions):
        attempt = execution.attempt
        outcome = str(attempt.outcome).replace("_", " ")
        because = f": {attempt.error_class}" if attempt.error_class else ""
        yield Event(attempt.started_at, f"attempt {attempt.number} began", attempt.executor)
        ended = f"attempt {attempt.number} ended, {outcome}{because}"
        yield Event(attempt.finished_at, ended, attempt.executor)


def _end(job: Job) -> Iterator[Event]:
    if job.finished_at is not None:
        over = "became a dead letter" if job.status is Status.DLQ else f"is {job.status}"
        yield Event(job.finished_at, over)
    if job.expires_at is not None:
        yield Event(job.expires_at, "is deleted, as its retention ends")


def _of_people(entries: Sequence[Entry]) -> Iterator[Event]:
    for entry in reversed(entries):
        yield Event(entry.at, entry.action.partition(".")[2].replace("_", " "), entry.author.name)
