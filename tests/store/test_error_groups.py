"""Whatever becomes a dead letter is in the group of its error, and leaves it again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from jobs import attempts
from jobs.lifecycle import Outcome, Status
from jobs.repository import Repository
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

HELD: dict[str, Any] = {
    "status": Status.RUNNING,
    "claim_id": "c",
    "claimed_by": "e",
    "lease_until": NOW - timedelta(minutes=1),
}


def group_of(documents: Documents, job_id: ObjectId) -> object:
    document = documents.find_one({"_id": job_id})
    assert document is not None
    return document.get("errorGroup")


@pytest.mark.parametrize("max_attempts", [1, 2])
def test_a_failed_job_is_in_a_group_once_it_is_a_dead_letter(
    repo: Repository, documents: Documents, max_attempts: int
) -> None:
    job = a_job(max_attempts=max_attempts, **HELD)
    repo.jobs.insert([job])
    end = attempts.failed(
        job,
        error="order 17 is gone",
        outcome=Outcome.FAILED,
        started_at=NOW,
        finished_at=NOW,
        random=0.5,
    )

    assert repo.claims.finish([end], now=NOW) == 1

    expected = "order # is gone" if max_attempts == 1 else None
    assert group_of(documents, job.id) == expected


def test_what_cannot_be_read_or_fired_is_in_a_group(repo: Repository, documents: Documents) -> None:
    job, template = a_job(**HELD), a_template()
    repo.jobs.insert([job, template])
    documents.update_one({"_id": job.id}, {"$set": {"priority": "17"}})

    assert repo.recovery.expired(now=NOW, limit=1) == []
    assert repo.templates.dead_letter(template.id, reason="60 is no minute", now=NOW)

    assert group_of(documents, job.id) == "job #: priority cannot be '…'"
    assert group_of(documents, template.id) == "# is no minute"


@pytest.mark.parametrize("move", ["redrive", "discard"])
def test_what_is_no_dead_letter_any_more_is_in_no_group(
    repo: Repository, documents: Documents, move: str
) -> None:
    template = a_template()
    repo.jobs.insert([template])
    repo.templates.dead_letter(template.id, reason="why", now=NOW)

    if move == "redrive":
        repo.interventions.redrive(template.id, due_at=NOW, now=NOW)
    else:
        repo.interventions.discard(template.id, now=NOW)

    assert group_of(documents, template.id) is None


def test_older_dead_letters_get_their_group_by_migrate(
    repo: Repository, documents: Documents
) -> None:
    dead = [a_job(status=Status.DLQ, finished_at=NOW, last_error=f"order {n}") for n in range(3)]
    alive = a_job(last_error="order 4")
    repo.jobs.insert([*dead, alive])
    documents.update_one({"_id": dead[1].id}, {"$set": {"lastError": 7}})
    documents.update_one({"_id": dead[2].id}, {"$set": {"errorGroup": "kept"}})

    assert repo.dead_letters.assign_groups() == 2
    assert repo.dead_letters.assign_groups() == 0

    groups = [group_of(documents, job.id) for job in [*dead, alive]]
    assert groups == ["order #", "#", "kept", None]
