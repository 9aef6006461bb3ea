"""The order of events on a job's page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from jobs.attempts import failed
from jobs.audit import Action, Author, Entry, Via
from jobs.dashboard.timeline import timeline
from jobs.executions import Execution, execution_of
from jobs.lifecycle import Attempt, Job, Outcome, Status
from tests.builders import NOW, a_job

SECOND = timedelta(seconds=1)


def after(seconds: float) -> datetime:
    return NOW + seconds * SECOND


def failure(job: Job, *, due: float, number: int) -> Execution:
    """An attempt that was queued, claimed, begun and over one second after the other."""
    claimed = replace(
        job,
        attempts=number - 1,
        scheduled_at=after(due),
        queued_at=after(due + 1),
        claimed_at=after(due + 2),
        claimed_by="executor-1",
        claim_id=f"claim {due}",
    )
    end = failed(
        claimed,
        error="boom",
        started_at=after(due + 3),
        finished_at=after(due + 4),
        random=0.5,
    )
    return execution_of(claimed, end)


def told(job: Job, executions: Sequence[Execution], *entries: Entry, **more: bool) -> list[str]:
    """What the timeline says, with the seconds since NOW."""
    events = timeline(job, executions, entries, after(1_000), **more)
    return [f"{(event.at - NOW) / SECOND:g} {event.what}" for event in events]


def an_entry(job: Job, action: Action, at: float, **sides: Any) -> Entry:
    return Entry(
        at=after(at),
        author=Author("olga", Via.ADMIN),
        action=action,
        tenant_id=job.tenant_id,
        targets=(str(job.id),),
        **sides,
    )


def attempt_lines(due: float, number: int, *, first: bool = False) -> list[str]:
    return [
        f"{due:g} {'due' if first else 'due again'}",
        f"{due + 1:g} queued, and its executors were woken",
        f"{due + 2:g} claimed",
        f"{due + 3:g} attempt {number} began",
        f"{due + 4:g} attempt {number} ended, failed",
    ]


def test_events_are_in_order_with_the_time_since_the_one_before() -> None:
    job = a_job(
        created_at=NOW,
        scheduled_at=NOW + 5 * SECOND,
        status=Status.COMPLETED,
        queued_at=NOW + 6 * SECOND,
        finished_at=NOW + 9 * SECOND,
    )
    attempt = Attempt(1, "executor-1", NOW + 7 * SECOND, NOW + 9 * SECOND, Outcome.COMPLETED)
    execution = Execution(
        id="e", job_id=job.id, tenant_id=job.tenant_id, job_type=job.job_type, attempt=attempt
    )

    events = timeline(job, [execution], [], NOW + 60 * SECOND)

    assert [(event.what, event.after) for event in events] == [
        ("created", None),
        ("due", 5 * SECOND),
        ("queued, and its executors were woken", SECOND),
        ("attempt 1 began", SECOND),
        ("attempt 1 ended, completed", 2 * SECOND),
        ("is completed", timedelta(0)),
    ]


def test_what_is_still_to_come_is_marked() -> None:
    job = a_job(created_at=NOW, scheduled_at=NOW + SECOND)

    assert [event.is_ahead for event in timeline(job, [], [], NOW)] == [False, True]


def test_who_acted_is_named() -> None:
    job = a_job()
    entry = an_entry(job, Action.JOB_RUN_NOW, 1)

    last = timeline(job, [], [entry], NOW + SECOND)[-1]

    assert (last.what, last.by) == ("run now", "olga")


def test_each_attempt_tells_what_it_had_waited_for() -> None:
    job = a_job(created_at=NOW)
    executions = [failure(job, due=20, number=2), failure(job, due=5, number=1)]
    waiting = replace(job, attempts=2, scheduled_at=after(50), claimed_at=after(22))

    assert told(waiting, executions) == [
        "0 created",
        *attempt_lines(5, 1, first=True),
        *attempt_lines(20, 2),
        "50 due again",
    ]


def test_a_job_that_died_in_its_only_attempt_was_due_once_and_after_it_was_created() -> None:
    job = a_job(created_at=NOW, scheduled_at=after(-60))
    execution = replace(failure(job, due=0, number=1), due_at=after(-60))
    over = replace(
        job,
        status=Status.DLQ,
        attempts=1,
        queued_at=after(1),
        claimed_at=after(2),
        claimed_by="executor-1",
        started_at=after(3),
        finished_at=after(4),
    )

    assert told(over, [execution]) == [
        "0 created",
        *attempt_lines(0, 1, first=True),
        "4 became a dead letter",
    ]


def test_attempts_count_from_one_again_after_a_redrive_that_says_so() -> None:
    job = a_job(created_at=NOW)
    executions = [failure(job, due=10, number=1), failure(job, due=2, number=1)]
    redriven = replace(job, attempts=1, scheduled_at=after(30))

    assert told(redriven, executions, an_entry(job, Action.JOB_REDRIVE, 10)) == [
        "0 created",
        *attempt_lines(2, 1, first=True),
        "10 redriven: attempts count from 1 again",
        *attempt_lines(10, 1),
        "30 due again",
    ]


def test_a_discarded_job_became_a_dead_letter_first() -> None:
    job = a_job(
        created_at=NOW,
        scheduled_at=NOW,
        status=Status.CANCELLED,
        finished_at=after(4),
        updated_at=after(9),
    )

    assert told(job, [], an_entry(job, Action.JOB_DISCARD, 9)) == [
        "0 created",
        "0 due",
        "4 became a dead letter",
        "9 discard",
    ]


def test_a_job_that_was_cancelled_before_its_time_was_never_due() -> None:
    job = a_job(
        created_at=NOW, scheduled_at=after(60), status=Status.CANCELLED, finished_at=after(3)
    )

    assert told(job, []) == ["0 created", "3 is cancelled"]


def test_another_time_is_told_with_the_one_before() -> None:
    job = a_job(created_at=NOW, scheduled_at=after(60))
    sides = {"before": {"scheduledAt": "soon"}, "after": {"scheduledAt": "later"}}

    assert told(job, [], an_entry(job, Action.JOB_RESCHEDULE, 1, **sides)) == [
        "0 created",
        "1 rescheduled from soon to later",
        "60 due",
    ]


def test_attempts_that_are_left_out_are_told() -> None:
    job = a_job(created_at=NOW, attempts=51, scheduled_at=after(99))

    assert told(job, [failure(job, due=50, number=51)], has_older=True) == [
        "0 created",
        "0 earlier attempts are left out",
        *attempt_lines(50, 51),
        "99 due again",
    ]


def test_a_running_attempt_is_told_as_far_as_it_has_come() -> None:
    job = a_job(
        created_at=NOW,
        scheduled_at=after(1),
        status=Status.RUNNING,
        queued_at=after(2),
        claimed_at=after(3),
        claimed_by="executor-1",
        started_at=after(4),
    )

    assert told(job, []) == [
        "0 created",
        "1 due",
        "2 queued, and its executors were woken",
        "3 claimed",
        "4 attempt 1 began",
    ]
