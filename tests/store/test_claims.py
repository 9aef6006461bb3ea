"""The executor's side: one claim at a time, and what the end of an attempt leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from chronos_site.config import StoreConfig
from jobs import attempts
from jobs.lifecycle import HISTORY_LENGTH, Attempt, Finish, Job, Outcome, Status
from jobs.repository import Repository
from tests.builders import NOW, a_job
from tests.store.conftest import Documents

LEASE: Final = timedelta(minutes=5)
LATER: Final = NOW + timedelta(seconds=30)


def a_held_job(claim_id: str = "c1", **overrides: Any) -> Job:
    """A running job."""
    fields: dict[str, Any] = {
        "status": Status.RUNNING,
        "claim_id": claim_id,
        "claimed_by": "e1",
        "claimed_at": NOW,
        "queued_at": NOW,
        "started_at": NOW,
        "lease_until": NOW + LEASE,
    }
    return a_job(**(fields | overrides))


def stored(repo: Repository, *jobs: Job) -> list[Job]:
    repo.jobs.insert(jobs)
    return list(jobs)


def completed(job: Job, **changes: Any) -> Finish:
    return attempts.completed(job, started_at=NOW, finished_at=LATER, **changes)


def failed(job: Job, **changes: Any) -> Finish:
    return attempts.failed(
        job, error="why", started_at=NOW, finished_at=LATER, random=0.0, **changes
    )


def claim(repo: Repository, jobs: list[Job], claim_id: str = "c1", **changes: Any) -> list[Job]:
    ids = [job.id for job in jobs]
    return repo.claims.claim(ids, owner="e1", claim_id=claim_id, lease=LEASE, now=NOW, **changes)


def test_a_claim_says_who_holds_the_job_and_until_when(repo: Repository) -> None:
    (job,) = stored(repo, a_job(status=Status.QUEUED, queued_at=NOW))

    (claimed,) = claim(repo, [job])

    assert claimed == replace(
        job,
        status=Status.CLAIMED,
        claim_id="c1",
        claimed_by="e1",
        claimed_at=NOW,
        lease_until=NOW + LEASE,
    )
    assert repo.jobs.get(job.id) == claimed


def test_a_claim_may_start_the_jobs_in_the_same_write(repo: Repository) -> None:
    (job,) = stored(repo, a_job(status=Status.QUEUED))

    (claimed,) = claim(repo, [job], start=True)

    assert claimed.status is Status.RUNNING
    assert claimed.started_at == NOW


def test_claimed_jobs_come_in_the_order_of_their_messages(repo: Repository) -> None:
    jobs = stored(repo, *(a_job(status=Status.QUEUED) for _ in range(50)))

    claimed = claim(repo, jobs)

    assert [job.id for job in claimed] == [job.id for job in jobs]


def test_a_message_that_comes_twice_is_claimed_once(repo: Repository) -> None:
    jobs = stored(repo, *(a_job(status=Status.QUEUED) for _ in range(3)))

    first, second = claim(repo, [*jobs, *jobs], "c1"), claim(repo, jobs, "c2")

    assert len(first) == 3
    assert second == []


def test_a_repeated_claim_returns_what_the_lost_answer_would_have(repo: Repository) -> None:
    jobs = stored(repo, *(a_job(status=Status.QUEUED) for _ in range(3)))

    first, repeated = claim(repo, jobs), claim(repo, jobs)

    assert repeated == first


def test_claiming_nothing_claims_nothing(repo: Repository) -> None:
    assert claim(repo, []) == []
    assert claim(repo, [a_job()]) == []


def test_starting_tells_what_is_no_longer_ours(repo: Repository) -> None:
    ours, reaped, cancelled = stored(
        repo,
        a_held_job(status=Status.CLAIMED),
        a_held_job("c9", status=Status.CLAIMED),
        a_held_job(status=Status.CANCELLED),
    )

    started = repo.claims.start([(job.id, "c1") for job in (ours, reaped, cancelled)], now=LATER)

    assert started == {(ours.id, "c1")}
    assert repo.jobs.get(ours.id).started_at == LATER
    assert repo.jobs.get(reaped.id) == reaped


def test_starting_twice_is_no_loss(repo: Repository) -> None:
    jobs = stored(repo, *(a_held_job(status=Status.CLAIMED) for _ in range(2)))
    held = [(job.id, "c1") for job in jobs]

    assert repo.claims.start(held, now=NOW) == repo.claims.start(held, now=LATER)
    assert repo.jobs.get(jobs[0].id).started_at == NOW


def test_a_heartbeat_extends_every_claim_and_names_the_lost(repo: Repository) -> None:
    running, claimed, done, other = stored(
        repo,
        a_held_job("c1"),
        a_held_job("c2", status=Status.CLAIMED),
        a_held_job("c2", status=Status.COMPLETED),
        a_held_job("c9"),
    )
    held = [(running.id, "c1"), (claimed.id, "c2"), (done.id, "c2"), (other.id, "c1")]

    lost = repo.claims.extend(held, until=LATER + LEASE)

    assert lost == {(done.id, "c2"), (other.id, "c1")} == repo.claims.lost(held)
    assert repo.jobs.get(running.id).lease_until == LATER + LEASE
    assert repo.jobs.get(claimed.id).lease_until == LATER + LEASE
    assert repo.jobs.get(other.id) == other


def test_a_job_claimed_again_is_not_held_by_its_earlier_claim(repo: Repository) -> None:
    # Both claims are this executor's own, so only the pair of job and claim tells.
    again, neighbour = stored(
        repo, a_held_job("new", status=Status.CLAIMED), a_held_job("new", status=Status.CLAIMED)
    )
    stale = [(again.id, "old"), (neighbour.id, "new")]

    assert repo.claims.lost(stale) == {(again.id, "old")}
    assert repo.claims.extend(stale, until=LATER) == {(again.id, "old")}
    assert repo.claims.start(stale, now=NOW) == {(neighbour.id, "new")}
    assert repo.claims.hand_back(stale, now=NOW) == 1
    assert repo.jobs.get(again.id) == again


def test_no_claims_are_no_error(repo: Repository) -> None:
    assert repo.claims.start([], now=NOW) == set()
    assert repo.claims.extend([], until=NOW) == set()
    assert repo.claims.lost([]) == set()
    assert repo.claims.hand_back([], now=NOW) == 0
    assert repo.claims.finish([], now=NOW) == 0


def test_a_completed_job_keeps_its_result_and_the_attempt(repo: Repository) -> None:
    (job,) = stored(repo, a_held_job(attempts=1))

    assert repo.claims.finish([completed(job, result='{"rows": 3}')], now=LATER) == 1

    assert repo.jobs.get(job.id) == replace(
        job,
        status=Status.COMPLETED,
        claim_id=None,
        lease_until=None,
        updated_at=LATER,
        finished_at=LATER,
        result='{"rows": 3}',
        history=(Attempt(2, "e1", NOW, LATER, Outcome.COMPLETED),),
    )


def test_a_failed_job_waits_for_its_next_attempt(repo: Repository) -> None:
    (job,) = stored(repo, a_held_job())

    repo.claims.finish([failed(job)], now=LATER)

    assert repo.jobs.get(job.id) == replace(
        job,
        status=Status.PENDING,
        attempts=1,
        scheduled_at=LATER + timedelta(seconds=2),
        claim_id=None,
        lease_until=None,
        queued_at=None,
        started_at=None,
        updated_at=LATER,
        last_error="why",
        history=(Attempt(1, "e1", NOW, LATER, Outcome.FAILED, "why"),),
    )


def test_the_last_failure_is_a_dead_letter(repo: Repository) -> None:
    (job,) = stored(repo, a_held_job(attempts=2, max_attempts=3))

    repo.claims.finish([failed(job)], now=LATER)

    dead = repo.jobs.get(job.id)
    assert (dead.status, dead.attempts, dead.last_error) == (Status.DLQ, 3, "why")
    assert dead.finished_at == LATER
    assert dead.claim_id is None


def test_alike_jobs_end_together_and_the_written_ones_are_counted(repo: Repository) -> None:
    jobs = stored(repo, *(a_held_job(f"c{number % 3}") for number in range(30)))
    lost = [replace(job, claim_id="stale") for job in jobs[:7]]
    others = [completed(job, result=str(place)) for place, job in enumerate(jobs[7:12])]

    written = repo.claims.finish(
        [*map(completed, lost), *others, *map(completed, jobs[12:20]), *map(failed, jobs[20:])],
        now=LATER,
    )

    after = [repo.jobs.get(job.id) for job in jobs]
    assert written == 23
    assert after[:7] == jobs[:7]
    assert [job.result for job in after[7:12]] == ["0", "1", "2", "3", "4"]
    assert {job.status for job in after[12:20]} == {Status.COMPLETED}
    assert {(job.status, job.attempts) for job in after[20:]} == {(Status.PENDING, 1)}


def test_a_repeated_end_writes_nothing_more(repo: Repository) -> None:
    (job,) = stored(repo, a_held_job())

    assert repo.claims.finish([failed(job)], now=LATER) == 1
    once = repo.jobs.get(job.id)

    assert repo.claims.finish([failed(job)], now=LATER) == 0
    assert repo.jobs.get(job.id) == once


def test_history_keeps_the_newest_attempts(repo: Repository) -> None:
    old = tuple(
        Attempt(number, "e1", NOW, NOW, Outcome.FAILED, "why") for number in range(1, 1 + 20)
    )
    assert len(old) == HISTORY_LENGTH
    (job,) = stored(repo, a_held_job(attempts=20, max_attempts=50, history=old))

    repo.claims.finish([failed(job)], now=LATER)

    history = repo.jobs.get(job.id).history
    assert [attempt.number for attempt in history] == list(range(2, 22))


def test_handing_back_costs_no_attempt_and_leaves_no_trace_of_the_claim(repo: Repository) -> None:
    running, claimed = stored(repo, a_held_job(attempts=1), a_held_job(status=Status.CLAIMED))

    assert repo.claims.hand_back([(running.id, "c1"), (claimed.id, "c1")], now=LATER) == 2

    assert repo.jobs.get(running.id) == replace(
        running,
        status=Status.PENDING,
        claim_id=None,
        lease_until=None,
        queued_at=None,
        started_at=None,
        updated_at=LATER,
    )
    assert repo.jobs.get(claimed.id).status is Status.PENDING


@pytest.fixture
def forgetful(repo: Repository, store_config: StoreConfig) -> Iterator[Repository]:
    """The same store with RETENTION_COMPLETED and RETENTION_DLQ set."""
    config = replace(
        store_config, retention_completed=timedelta(days=1), retention_dlq=timedelta(days=7)
    )
    repository = Repository.connect(config)
    yield repository
    repository.close()


# In the future, or MongoDB deletes the jobs at once.
LEAP: Final = timedelta(days=36_500)


def test_finished_jobs_expire_when_retention_is_set(forgetful: Repository) -> None:
    end = NOW + LEAP
    done, dead, again = stored(forgetful, a_held_job(), a_held_job(), a_held_job())

    forgetful.claims.finish(
        [
            attempts.completed(done, started_at=NOW, finished_at=end),
            replace(
                failed(dead, is_final=True), attempt=replace(failed(dead).attempt, finished_at=end)
            ),
            failed(again),
        ],
        now=end,
    )

    assert forgetful.jobs.get(done.id).expires_at == end + timedelta(days=1)
    assert forgetful.jobs.get(dead.id).expires_at == end + timedelta(days=7)
    assert forgetful.jobs.get(again.id).expires_at is None


def test_without_retention_nothing_expires(repo: Repository) -> None:
    done, dead = stored(repo, a_held_job(), a_held_job())

    repo.claims.finish([completed(done), failed(dead, is_final=True)], now=LATER)

    assert repo.jobs.get(done.id).expires_at is None
    assert repo.jobs.get(dead.id).expires_at is None


def test_a_redriven_job_no_longer_expires(forgetful: Repository) -> None:
    (job,) = stored(
        forgetful,
        a_job(status=Status.DLQ, attempts=3, finished_at=NOW, expires_at=NOW + LEAP),
    )

    redriven = forgetful.interventions.redrive(job.id, due_at=NOW, now=NOW)

    assert isinstance(redriven, Job)
    assert redriven.expires_at is None


def test_what_cannot_be_read_expires_as_a_dead_letter(
    forgetful: Repository, documents: Documents
) -> None:
    (job,) = stored(forgetful, a_job(status=Status.QUEUED))
    documents.update_one({"_id": job.id}, {"$set": {"attempts": "three"}})

    claimed = forgetful.claims.claim(
        [job.id], owner="e1", claim_id="c1", lease=LEASE, now=NOW + LEAP
    )

    document = documents.find_one({"_id": job.id})
    assert claimed == []
    assert document is not None
    assert document["status"] == "dlq"
    assert "attempts" in document["lastError"]
    assert document["expiresAt"] == NOW + LEAP + timedelta(days=7)
    assert document["finishedAt"] == NOW + LEAP
    assert "claimId" not in document


def test_the_index_deletes_jobs_at_the_instant_they_expire(
    repo: Repository, documents: Documents
) -> None:
    expiry = documents.index_information()["expiry"]

    assert expiry["expireAfterSeconds"] == 0
    assert expiry["key"] == [("expiresAt", 1)]
