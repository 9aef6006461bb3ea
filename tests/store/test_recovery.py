"""The reaper's side: what nobody holds any more is taken back, and what somebody holds is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from bson import ObjectId

from jobs import attempts
from jobs.lifecycle import Attempt, Finish, Job, Outcome, Status
from jobs.repository import Repository
from tests.builders import NOW, a_job
from tests.store.conftest import Documents

SECOND: Final = timedelta(seconds=1)


def a_held_job(status: Status, **overrides: Any) -> Job:
    """Held by an executor until NOW."""
    fields = {"claim_id": "c1", "claimed_by": "e1", "lease_until": NOW, "queued_at": NOW}
    return a_job(status=status, **(fields | overrides))


def lost(job: Job) -> Finish:
    return attempts.failed(
        job,
        error="no sign of life",
        outcome=Outcome.LOST,
        started_at=NOW,
        finished_at=NOW + SECOND,
        random=0.0,
    )


def ids(jobs: Iterable[Job]) -> set[ObjectId]:
    return {job.id for job in jobs}


def test_a_queued_job_goes_back_when_its_message_is_overdue(repo: Repository) -> None:
    overdue = a_job(status=Status.QUEUED, queued_at=NOW - SECOND, claim_id="q", attempts=1)
    recent = a_job(status=Status.QUEUED, queued_at=NOW, claim_id="q")
    repo.jobs.insert([overdue, recent])

    assert repo.recovery.requeue_lost_messages(queued_before=NOW, now=NOW + SECOND) == 1

    assert repo.jobs.get(overdue.id) == replace(
        overdue, status=Status.PENDING, queued_at=None, claim_id=None, updated_at=NOW + SECOND
    )
    assert repo.jobs.get(recent.id) == recent


def test_a_claim_that_never_started_goes_back_without_an_attempt(repo: Repository) -> None:
    expired = a_held_job(Status.CLAIMED, lease_until=NOW - SECOND, attempts=2)
    alive = a_held_job(Status.CLAIMED)
    repo.jobs.insert([expired, alive])

    assert repo.recovery.reclaim_unstarted(now=NOW) == 1

    after = repo.jobs.get(expired.id)
    assert (after.status, after.attempts, after.claim_id) == (Status.PENDING, 2, None)
    assert after.lease_until is None
    assert repo.jobs.get(alive.id) == alive


def test_expired_finds_running_jobs_whose_lease_has_ended(repo: Repository) -> None:
    expired = [a_held_job(Status.RUNNING, lease_until=NOW - SECOND) for _ in range(3)]
    repo.jobs.insert([*expired, a_held_job(Status.RUNNING), a_held_job(Status.CLAIMED)])

    assert ids(repo.recovery.expired(now=NOW, limit=10)) == ids(expired)
    assert len(repo.recovery.expired(now=NOW, limit=2)) == 2


def test_taking_back_costs_an_attempt(repo: Repository) -> None:
    job = a_held_job(Status.RUNNING, lease_until=NOW - SECOND, started_at=NOW)
    repo.jobs.insert([job])

    assert repo.recovery.take_back([lost(job)], now=NOW) == 1

    after = repo.jobs.get(job.id)
    assert after.status is Status.PENDING
    assert after.scheduled_at == NOW + SECOND + timedelta(seconds=2)
    assert after.history == (Attempt(1, "e1", NOW, NOW + SECOND, Outcome.LOST, "no sign of life"),)
    assert (after.attempts, after.claim_id, after.started_at) == (1, None, None)


def test_a_job_that_takes_its_executor_down_each_time_becomes_a_dead_letter(
    repo: Repository,
) -> None:
    job = a_held_job(Status.RUNNING, lease_until=NOW - SECOND, attempts=2, max_attempts=3)
    repo.jobs.insert([job])

    repo.recovery.take_back([lost(job)], now=NOW)

    assert repo.jobs.get(job.id).status is Status.DLQ


def test_a_sign_of_life_before_the_write_saves_the_claim(repo: Repository) -> None:
    extended, finished, again = (
        a_held_job(Status.RUNNING, lease_until=NOW - SECOND) for _ in range(3)
    )
    repo.jobs.insert([extended, finished, again])
    found = repo.recovery.expired(now=NOW, limit=10)
    repo.claims.extend([(extended.id, "c1")], until=NOW + SECOND)
    done = attempts.completed(finished, started_at=NOW, finished_at=NOW)
    repo.claims.finish([done], now=NOW)
    repo.claims.hand_back([(again.id, "c1")], now=NOW)

    assert len(found) == 3
    assert repo.recovery.take_back([lost(job) for job in found], now=NOW) == 0
    assert repo.jobs.get(extended.id).status is Status.RUNNING
    assert repo.jobs.get(finished.id).status is Status.COMPLETED


def test_two_reapers_take_a_job_back_once(repo: Repository) -> None:
    job = a_held_job(Status.RUNNING, lease_until=NOW - SECOND)
    repo.jobs.insert([job])

    taken = [repo.recovery.take_back([lost(job)], now=NOW) for _ in range(2)]

    assert taken == [1, 0]
    assert repo.jobs.get(job.id).attempts == 1
    assert repo.recovery.take_back([], now=NOW) == 0


def test_a_missing_instant_counts_as_long_ago(repo: Repository) -> None:
    queued = a_job(status=Status.QUEUED)
    claimed = a_held_job(Status.CLAIMED, lease_until=None)
    running = a_held_job(Status.RUNNING, lease_until=None)
    repo.jobs.insert([queued, claimed, running])

    assert repo.recovery.requeue_lost_messages(queued_before=NOW, now=NOW) == 1
    assert repo.recovery.reclaim_unstarted(now=NOW) == 1
    assert ids(repo.recovery.expired(now=NOW, limit=10)) == {running.id}
    assert repo.recovery.take_back([lost(running)], now=NOW) == 1


def test_a_running_job_without_a_claim_is_taken_back_too(repo: Repository) -> None:
    job = a_job(status=Status.RUNNING)
    repo.jobs.insert([job])

    (found,) = repo.recovery.expired(now=NOW, limit=10)

    assert repo.recovery.take_back([lost(found)], now=NOW) == 1
    assert repo.jobs.get(job.id).status is Status.PENDING


def test_an_expired_job_that_cannot_be_read_is_dead_lettered(
    repo: Repository, documents: Documents
) -> None:
    broken, good = (a_held_job(Status.RUNNING, lease_until=NOW - SECOND) for _ in range(2))
    repo.jobs.insert([broken, good])
    documents.update_one(
        {"_id": broken.id}, {"$set": {"maxAttempts": "many", "claimId": {"$gt": ""}}}
    )

    found = repo.recovery.expired(now=NOW, limit=10)

    document = documents.find_one({"_id": broken.id})
    assert ids(found) == {good.id}
    assert document is not None
    assert document["status"] == "dlq"
    assert "maxAttempts" in document["lastError"]
