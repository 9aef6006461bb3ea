"""Documents that MongoDB refuses to change do not stop the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jobs import attempts
from jobs.lifecycle import Outcome, Status
from jobs.repository import Repository
from jobs.repository.documents import to_document
from tests.builders import NOW, a_job
from tests.store.conftest import Documents

MINUTE = timedelta(minutes=1)
# Two arrays in one index: such a document cannot enter the index of due jobs.
PARALLEL_ARRAYS = {"priority": [1, 2], "scheduledAt": [NOW - MINUTE, NOW]}
HELD = {"claimed_by": "e", "claim_id": "c", "lease_until": NOW - MINUTE}


def _filled(document: dict[str, Any], documents: Documents) -> dict[str, Any]:
    """The document, filled up to a few bytes below MongoDB's limit."""
    size = documents.database.command({"aggregate": 1, "pipeline": [
        {"$documents": [document]}, {"$project": {"size": {"$bsonSize": "$$ROOT"}}}
    ], "cursor": {}})["cursor"]["firstBatch"][0]["size"]  # fmt: skip
    return document | {"filler": "x" * (16 * 1024 * 1024 - size - 40)}


def test_a_queued_job_that_cannot_be_due_leaves_the_others_their_way_back(
    repo: Repository, documents: Documents
) -> None:
    queued = [a_job(status=Status.QUEUED, queued_at=NOW - MINUTE) for _ in range(5)]
    repo.jobs.insert(queued)
    bad = a_job(status=Status.QUEUED, queued_at=NOW - MINUTE)
    documents.insert_one(to_document(bad) | PARALLEL_ARRAYS)

    repo.recovery.requeue_lost_messages(queued_before=NOW, now=NOW)

    assert {repo.jobs.get(job.id).status for job in queued} == {Status.PENDING}
    found = documents.find_one({"_id": bad.id})
    assert found is not None
    assert found["status"] == Status.DLQ


def test_a_due_job_that_cannot_grow_leaves_the_others_their_turn(
    repo: Repository, documents: Documents
) -> None:
    due = [a_job(scheduled_at=NOW - MINUTE) for _ in range(5)]
    repo.jobs.insert(due)
    bad = a_job(scheduled_at=NOW - MINUTE, priority=9)
    documents.insert_one(_filled(to_document(bad), documents))

    moved = repo.dispatch.queue([bad.id, *(job.id for job in due)], claim_id="c", now=NOW)

    assert moved == {job.id for job in due}
    assert repo.dispatch.due("noop", now=NOW, limit=9) == []


def test_a_message_for_a_job_that_cannot_grow_leaves_the_others_claimed(
    repo: Repository, documents: Documents
) -> None:
    queued = [a_job(status=Status.QUEUED, queued_at=NOW) for _ in range(3)]
    repo.jobs.insert(queued)
    bad = a_job(status=Status.QUEUED, queued_at=NOW)
    documents.insert_one(_filled(to_document(bad), documents))
    ids = [queued[0].id, bad.id, queued[1].id, queued[2].id]

    claimed = repo.claims.claim(ids, owner="executor", claim_id="c", lease=MINUTE, now=NOW)

    assert [job.id for job in claimed] == [job.id for job in queued]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_running_job_that_cannot_grow_leaves_the_others_taken_back(
    repo: Repository, documents: Documents, position: int
) -> None:
    running = [a_job(status=Status.RUNNING, **HELD) for _ in range(3)]
    bad = running.pop(position)
    repo.jobs.insert(running)
    documents.insert_one(_filled(to_document(bad), documents))
    expired = repo.recovery.expired(now=NOW, limit=9)
    finishes = [
        attempts.failed(
            job, error="x" * 99, started_at=NOW, finished_at=NOW, random=0.0, outcome=Outcome.LOST
        )
        for job in expired
    ]

    assert len(finishes) == 3
    assert repo.recovery.take_back(finishes, now=NOW) == 2
    assert {repo.jobs.get(job.id).status for job in running} == {Status.PENDING}
    assert repo.recovery.expired(now=NOW, limit=9) == []
