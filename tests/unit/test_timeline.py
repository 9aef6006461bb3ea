"""The order of events on a job's page."""

from __future__ import annotations

from datetime import timedelta

from jobs.audit import Action, Author, Entry, Via
from jobs.dashboard.timeline import timeline
from jobs.executions import Execution
from jobs.lifecycle import Attempt, Outcome, Status
from tests.builders import NOW, a_job

SECOND = timedelta(seconds=1)


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
    entry = Entry(
        at=NOW + SECOND,
        author=Author("olga", Via.ADMIN),
        action=Action.JOB_RUN_NOW,
        tenant_id=job.tenant_id,
        targets=(str(job.id),),
    )

    last = timeline(job, [], [entry], NOW + SECOND)[-1]

    assert (last.what, last.by) == ("run now", "olga")
