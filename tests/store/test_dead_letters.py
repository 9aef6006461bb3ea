"""Every dead letter is announced, also when the process that made it is gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from jobs.repository.dead_letters import DeadLetter
from tests.builders import NOW, a_job
from tests.store.conftest import Documents

SECOND: Final = timedelta(seconds=1)


def a_dead_letter(**overrides: Any) -> Job:
    fields = {"attempts": 3, "finished_at": NOW - SECOND, "last_error": "why"}
    return a_job(status=Status.DLQ, **(fields | overrides))


def test_a_dead_letter_stays_unannounced_until_its_message_arrived(repo: Repository) -> None:
    job = a_dead_letter()
    repo.jobs.insert([job])
    expected = [DeadLetter(job.id, "tenant-a", "noop", job.idempotency_key, 3, "why")]

    assert repo.dead_letters.unannounced(before=NOW, limit=10) == expected
    repo.dead_letters.mark_announced([job.id], now=NOW)

    assert repo.dead_letters.unannounced(before=NOW, limit=10) == []


def test_young_dead_letters_are_left_to_their_executor(repo: Repository) -> None:
    repo.jobs.insert([a_dead_letter(finished_at=NOW), a_job(finished_at=NOW - SECOND)])

    assert repo.dead_letters.unannounced(before=NOW, limit=10) == []


def test_no_more_are_read_than_asked_for(repo: Repository) -> None:
    repo.jobs.insert([a_dead_letter() for _ in range(3)])

    assert len(repo.dead_letters.unannounced(before=NOW, limit=2)) == 2


def test_a_job_that_dies_again_is_announced_again(repo: Repository) -> None:
    job = a_dead_letter()
    repo.jobs.insert([job])
    repo.dead_letters.mark_announced([job.id], now=NOW)
    repo.interventions.redrive(job.id, due_at=NOW, now=NOW)

    repo.dead_letters.mark_announced([job.id], now=NOW)  # late: it is no dead letter now
    assert repo.jobs.get(job.id) == replace(
        job, status=Status.PENDING, attempts=0, finished_at=None
    )


def test_what_cannot_be_read_is_announced_as_far_as_it_goes(
    repo: Repository, documents: Documents
) -> None:
    job = a_dead_letter()
    documents.insert_one({"_id": job.id, "status": "dlq", "attempts": "x", "finishedAt": NOW})

    assert repo.dead_letters.unannounced(before=NOW + SECOND, limit=10) == [
        DeadLetter(job.id, "", "", "", 0, "")
    ]
