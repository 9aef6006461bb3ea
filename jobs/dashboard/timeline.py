"""What happened to a job, in order: from its document, its attempts and what people did to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from jobs.audit import Action, Entry
from jobs.executions import Execution
from jobs.lifecycle import LEASED, LIVE, Job, Status

_DUE: Final = "due"
_QUEUED: Final = "queued, and its executors were woken"
_CLAIMED: Final = "claimed"


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
    job: Job,
    executions: Sequence[Execution],
    entries: Sequence[Entry],
    now: datetime,
    *,
    has_older: bool = False,
) -> list[Event]:
    """The events of a job, the first one first.

    Args:
        job: it.
        executions: its attempts that have ended, the newest first.
        entries: of the audit log, about it, the newest first.
        now: aware UTC; what is later is still to come.
        has_older: it had more attempts, before these.
    """
    events = [
        Event(job.created_at, "created"),
        *_of_people(entries),
        *_of_attempts(job, executions),
        *_of_next_attempt(job),
        *_end(job, entries),
    ]
    # The document of a job still holds much of its last attempt, as that attempt's record does.
    # An end within the same millisecond stays behind its beginning: the sort is stable.
    events = sorted(dict.fromkeys(events), key=lambda event: event.at)
    before: datetime | None = None
    was_due = has_older
    shown = []
    for event in events:
        after = None if before is None else event.at - before
        what = event.what
        if what == _DUE:
            what, was_due = "due again" if was_due else _DUE, True
        shown.append(replace(event, what=what, after=after, is_ahead=event.at > now))
        before = event.at
    if has_older:
        left_out = "earlier attempts are left out"
        shown.insert(1, Event(job.created_at, left_out, after=timedelta(0)))
    return shown


def _of_people(entries: Sequence[Entry]) -> Iterator[Event]:
    for entry in reversed(entries):
        yield Event(entry.at, _done(entry), entry.author.name)


def _done(entry: Entry) -> str:
    if entry.action is Action.JOB_REDRIVE:
        return "redriven: attempts count from 1 again"
    if entry.action is Action.JOB_RESCHEDULE:
        was, becomes = (side.get("scheduledAt", "?") for side in (entry.before, entry.after))
        return f"rescheduled from {was} to {becomes}"
    return entry.action.partition(".")[2].replace("_", " ")


def _of_attempts(job: Job, executions: Sequence[Execution]) -> Iterator[Event]:
    for execution in reversed(executions):
        attempt = execution.attempt
        yield from _waits(job, execution.due_at, execution.queued_at)
        if execution.claimed_at is not None:
            yield Event(execution.claimed_at, _CLAIMED, attempt.executor)
        outcome = str(attempt.outcome).replace("_", " ")
        because = f": {attempt.error_class}" if attempt.error_class else ""
        yield Event(attempt.started_at, f"attempt {attempt.number} began", attempt.executor)
        ended = f"attempt {attempt.number} ended, {outcome}{because}"
        yield Event(attempt.finished_at, ended, attempt.executor)


def _of_next_attempt(job: Job) -> Iterator[Event]:
    """Of the one that is to come or under way; once the job is over, of the last one."""
    is_over = job.status not in LIVE
    has_come = job.finished_at is not None and job.scheduled_at <= job.finished_at
    yield from _waits(job, job.scheduled_at if has_come or not is_over else None, job.queued_at)
    if (is_over or job.status in LEASED) and job.claimed_at is not None:
        yield Event(job.claimed_at, _CLAIMED, job.claimed_by or "")
    if job.status is Status.RUNNING and job.started_at is not None:
        yield Event(job.started_at, f"attempt {job.attempts + 1} began", job.claimed_by or "")


def _waits(job: Job, due_at: datetime | None, queued_at: datetime | None) -> Iterator[Event]:
    if due_at is not None:
        # What was due before it was submitted has waited only since then.
        yield Event(max(due_at, job.created_at), _DUE)
    if queued_at is not None:
        yield Event(queued_at, _QUEUED)


def _end(job: Job, entries: Sequence[Entry]) -> Iterator[Event]:
    if job.finished_at is not None:
        # Discarding keeps the end that made it a dead letter.
        has_died = job.status is Status.DLQ or any(
            entry.action is Action.JOB_DISCARD and entry.at >= job.finished_at for entry in entries
        )
        over = "became a dead letter" if has_died else f"is {job.status}"
        yield Event(job.finished_at, over)
    if job.expires_at is not None:
        yield Event(job.expires_at, "is deleted, as its retention ends")
