"""The scheduler's side: what is due and in which order, who may publish it, what is in flight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from jobs.lifecycle import SHARDS, Job, Status, shard_of
from jobs.messages import shards_of
from jobs.repository import Repository
from jobs.repository.dispatch import DueJob, InFlight, Wake
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

SECOND: Final = timedelta(seconds=1)
LOOK_MS: Final = 100
LONG_AGO: Final = datetime.fromtimestamp(0, NOW.tzinfo)


def test_due_jobs_come_by_priority_and_then_by_age(repo: Repository) -> None:
    young = a_job(priority=1, scheduled_at=NOW)
    old = a_job(priority=1, scheduled_at=NOW - SECOND)
    urgent = a_job(priority=2, scheduled_at=NOW)
    idle = a_job(priority=-1, scheduled_at=NOW - 60 * SECOND)
    repo.jobs.insert([young, idle, urgent, old])

    due = repo.dispatch.due("noop", now=NOW, limit=10)

    assert due == [
        DueJob(job.id, "noop", job.priority, job.ready_at) for job in (urgent, old, young, idle)
    ]
    assert repo.dispatch.due("noop", now=NOW, limit=2) == due[:2]


def test_a_due_job_tells_since_when_it_could_run_whatever_was_edited(
    repo: Repository, documents: Documents
) -> None:
    late = a_job(scheduled_at=NOW - 60 * SECOND, created_at=NOW - SECOND)
    edited = a_job(scheduled_at=NOW - SECOND, created_at=NOW - 60 * SECOND)
    repo.jobs.insert([late, edited])

    assert {job.ready_at for job in repo.dispatch.due("noop", now=NOW, limit=10)} == {NOW - SECOND}

    for created_at, told in ((NOW + 60 * SECOND, NOW), ("soon", NOW - SECOND)):
        documents.update_one({"_id": edited.id}, {"$set": {"createdAt": created_at}})
        due = {job.id: job.ready_at for job in repo.dispatch.due("noop", now=NOW, limit=10)}
        assert due[edited.id] == told


def test_only_pending_jobs_of_the_type_that_are_due_are_found(repo: Repository) -> None:
    due = a_job()
    others = [a_job(status=status) for status in Status if status is not Status.PENDING]
    repo.jobs.insert(
        [
            due,
            *others,
            a_job(job_type="slow"),
            a_job(scheduled_at=NOW + SECOND),
            a_template(scheduled_at=NOW),
        ]
    )

    assert [job.id for job in repo.dispatch.due("noop", now=NOW, limit=10)] == [due.id]


def test_the_next_due_time_is_looked_for_within_the_window_only(repo: Repository) -> None:
    repo.jobs.insert(
        [
            a_job(scheduled_at=NOW),
            a_job(scheduled_at=NOW + 5 * SECOND, priority=9),
            a_job(scheduled_at=NOW + 3 * SECOND),
            a_job(scheduled_at=NOW + SECOND, job_type="slow"),
            a_template(scheduled_at=NOW + SECOND),
        ]
    )

    def next_due(until: int) -> datetime | None:
        return repo.dispatch.next_due("noop", after=NOW, until=NOW + until * SECOND)

    assert next_due(10) == NOW + 3 * SECOND
    assert next_due(3) == NOW + 3 * SECOND
    assert next_due(2) is None


def test_of_the_shards_that_others_own_nothing_is_found(repo: Repository) -> None:
    jobs = [a_job(scheduled_at=NOW + n * SECOND, priority=n % 3) for n in range(200)]
    repo.jobs.insert(jobs)
    later = NOW + 1000 * SECOND
    found = []

    for worker in range(3):
        shards = shards_of(worker, 3)
        mine = [job for job in jobs if shard_of(job.id) in shards]
        due = repo.dispatch.due("noop", now=later, limit=1000, shards=shards)
        order = sorted(mine, key=lambda job: (-job.priority, job.scheduled_at))
        assert [job.id for job in due] == [job.id for job in order]
        found += due
        assert repo.dispatch.next_due(
            "noop", after=NOW - SECOND, until=later, shards=shards
        ) == min(job.scheduled_at for job in mine)

    assert len(found) == len(jobs)
    assert repo.dispatch.due("noop", now=later, limit=1000, shards=frozenset()) == []
    everything = repo.dispatch.due("noop", now=later, limit=1000)
    assert repo.dispatch.due("noop", now=later, limit=1000, shards=range(SHARDS)) == everything


def test_due_jobs_of_a_span_are_counted_up_to_a_limit(repo: Repository) -> None:
    repo.jobs.insert(
        [
            a_job(scheduled_at=NOW - SECOND),
            *(a_job(scheduled_at=NOW + n * SECOND) for n in range(4)),
            a_job(scheduled_at=NOW, status=Status.QUEUED),
            a_job(scheduled_at=NOW, job_type="slow"),
            a_template(scheduled_at=NOW),
        ]
    )

    def count(limit: int) -> int:
        return repo.dispatch.count_due("noop", since=NOW, until=NOW + 3 * SECOND, limit=limit)

    assert count(100) == 3
    assert count(2) == 2


def test_queued_jobs_are_the_callers_to_publish(repo: Repository) -> None:
    mine, taken = a_job(), a_job(status=Status.QUEUED, claim_id="other")
    repo.jobs.insert([mine, taken])

    queued = repo.dispatch.queue([mine.id, taken.id, a_job().id], claim_id="q", now=NOW)

    assert queued == {mine.id}
    assert repo.jobs.get(mine.id) == replace(
        mine, status=Status.QUEUED, queued_at=NOW, claim_id="q"
    )
    assert repo.jobs.get(taken.id) == taken


def test_a_repeated_queueing_returns_what_the_lost_answer_would_have(repo: Repository) -> None:
    job = a_job()
    repo.jobs.insert([job])

    assert repo.dispatch.queue([job.id], claim_id="q", now=NOW) == {job.id}
    assert repo.dispatch.queue([job.id], claim_id="q", now=NOW) == {job.id}
    assert repo.dispatch.queue([job.id], claim_id="other", now=NOW) == set()


def test_releasing_leaves_a_job_as_if_it_had_never_been_queued(repo: Repository) -> None:
    job, arrived = a_job(), a_job()
    repo.jobs.insert([job, arrived])
    repo.dispatch.queue([job.id, arrived.id], claim_id="q", now=NOW)
    # Its message was not acknowledged, and came nevertheless.
    repo.claims.claim([arrived.id], owner="e1", claim_id="c1", lease=SECOND, now=NOW)

    released = repo.dispatch.release([job.id, arrived.id], claim_id="q", now=NOW + SECOND)

    assert released == 1
    assert repo.jobs.get(job.id) == replace(job, updated_at=NOW + SECOND)
    assert repo.jobs.get(arrived.id).status is Status.CLAIMED


def test_jobs_in_flight_are_counted_by_type_and_executor(repo: Repository) -> None:
    def some(count: int, status: Status, executor: str | None, job_type: str = "noop") -> None:
        repo.jobs.insert(
            [a_job(status=status, claimed_by=executor, job_type=job_type) for _ in range(count)]
        )

    some(2, Status.QUEUED, None)
    some(1, Status.QUEUED, "e1")  # the executor of its last attempt holds it no more
    some(4, Status.CLAIMED, "e1")
    some(5, Status.RUNNING, "e1")
    some(6, Status.RUNNING, "e2", "slow")
    some(7, Status.PENDING, "e1")
    some(8, Status.COMPLETED, "e1")

    assert set(repo.dispatch.in_flight()) == {
        InFlight("noop", None, 3),
        InFlight("noop", "e1", 9),
        InFlight("slow", "e2", 6),
    }


def next_wake(wakes: Iterator[Wake | None]) -> Wake:
    """The next that is not merely a look without news; the suite's time-out ends the waiting."""
    return next(wake for wake in wakes if wake is not None)


@pytest.fixture
def wakes(repo: Repository) -> Iterator[Iterator[Wake | None]]:
    """An open stream: what happens from now on is seen."""
    with repo.dispatch.watch(wait_ms=LOOK_MS) as opened:
        yield opened


def test_a_stream_says_which_inserts_become_due_when(
    repo: Repository, wakes: Iterator[Wake | None]
) -> None:
    repo.jobs.insert([a_job(job_type="slow", scheduled_at=NOW + SECOND)])
    assert next_wake(wakes) == Wake("slow", NOW + SECOND)

    repo.jobs.insert([a_template(scheduled_at=NOW + SECOND)])
    assert next_wake(wakes) == Wake(None, NOW + SECOND)


def test_a_stream_shows_each_way_back_to_pending_and_nothing_else(
    repo: Repository, wakes: Iterator[Wake | None]
) -> None:
    job = a_job(status=Status.DLQ)
    template = a_template(status=Status.PAUSED)
    repo.jobs.insert([job, template, a_job(status=Status.COMPLETED)])

    repo.interventions.redrive(job.id, due_at=NOW + SECOND, now=NOW)
    assert next_wake(wakes) == Wake(None, NOW + SECOND)

    repo.interventions.resume(template.id, next_at=NOW + 2 * SECOND, now=NOW)
    assert next_wake(wakes) == Wake(None, NOW + 2 * SECOND)

    repo.dispatch.queue([job.id], claim_id="q", now=NOW)
    repo.claims.claim([job.id], owner="e1", claim_id="c1", lease=SECOND, now=NOW)
    repo.claims.hand_back([(job.id, "c1")], now=NOW)
    assert next_wake(wakes) == Wake(None, LONG_AGO)

    repo.dispatch.queue([job.id], claim_id="q", now=NOW)
    repo.recovery.requeue_lost_messages(queued_before=NOW + SECOND, now=NOW)
    assert next_wake(wakes) == Wake(None, LONG_AGO)


def a_job_of(shards: range, **fields: Any) -> Job:
    """A job whose shard is one of these."""
    return next(job for job in iter(lambda: a_job(**fields), None) if shard_of(job.id) in shards)


def test_a_stream_of_some_shards_shows_nothing_of_the_others(
    repo: Repository, documents: Documents
) -> None:
    mine, others = range(100, 200), range(100)
    template = a_template(status=Status.PAUSED)

    with repo.dispatch.watch(wait_ms=LOOK_MS, shards=mine) as wakes:
        job, other = (
            a_job_of(which, status=Status.QUEUED, claim_id="q", queued_at=NOW)
            for which in (mine, others)
        )
        repo.jobs.insert([job, other, template, a_job_of(others)])
        documents.insert_one({"_id": {"by": "hand"}, "status": "pending"})
        repo.dispatch.release([other.id], claim_id="q", now=NOW)
        repo.dispatch.release([job.id], claim_id="q", now=NOW)
        repo.jobs.insert([a_job_of(others), a_job_of(mine, scheduled_at=NOW + SECOND)])

        assert next_wake(wakes) == Wake(None, LONG_AGO)
        assert next_wake(wakes) == Wake("noop", NOW + SECOND)


def test_a_stream_of_no_shards_shows_templates_only(repo: Repository) -> None:
    paused = a_template(status=Status.PAUSED)

    with repo.dispatch.watch(wait_ms=LOOK_MS, shards=frozenset()) as wakes:
        job = a_job()
        repo.jobs.insert([job, paused])
        repo.dispatch.queue([job.id], claim_id="q", now=NOW)
        repo.dispatch.release([job.id], claim_id="q", now=NOW)
        repo.jobs.insert([a_template(scheduled_at=NOW + SECOND)])
        repo.interventions.resume(paused.id, next_at=NOW + 2 * SECOND, now=NOW)

        assert next_wake(wakes) == Wake(None, NOW + SECOND)
        assert next_wake(wakes) == Wake(None, NOW + 2 * SECOND)


def test_a_stream_says_after_each_look_that_there_is_nothing(
    wakes: Iterator[Wake | None],
) -> None:
    assert next(wakes) is None
    assert next(wakes) is None


def test_a_stream_outlives_documents_that_are_no_jobs(
    repo: Repository, documents: Documents, wakes: Iterator[Wake | None]
) -> None:
    documents.insert_many(
        [
            {"status": "pending"},
            {"status": "pending", "kind": "job", "jobType": ["noop"], "scheduledAt": "soon"},
        ]
    )
    repo.jobs.insert([a_job()])

    seen = [next_wake(wakes) for _ in range(3)]

    assert seen == [Wake(None, LONG_AGO), Wake(None, LONG_AGO), Wake("noop", NOW)]
    assert len(set(seen)) == 2


def test_a_closed_stream_leaves_no_cursor_behind(repo: Repository, documents: Documents) -> None:
    admin = documents.database.client.admin

    def streams() -> int:
        found = admin.aggregate(
            [
                {"$currentOp": {"idleCursors": True, "allUsers": True}},
                {"$match": {"ns": documents.full_name, "cursor": {"$exists": True}}},
            ]
        )
        return sum(1 for _ in found)

    with repo.dispatch.watch(wait_ms=LOOK_MS) as wakes:
        assert next(wakes) is None
        assert streams() == 1

    assert streams() == 0
