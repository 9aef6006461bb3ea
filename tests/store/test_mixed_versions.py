"""Two releases side by side: what the older one does not know it leaves as it is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pymongo.collection import Collection

from jobs.attempts import completed
from jobs.lifecycle import Status
from jobs.repository import Repository
from tests.builders import NOW, a_job

LEASE = timedelta(minutes=5)


def test_a_field_of_a_later_version_survives_every_move(
    repo: Repository, documents: Collection[dict[str, Any]]
) -> None:
    job = a_job()
    repo.jobs.insert([job])
    documents.update_one({"_id": job.id}, {"$set": {"fromLater": {"a": 1}}})

    repo.dispatch.queue([job.id], claim_id="queued", now=NOW)
    [claimed] = repo.claims.claim(
        [job.id], owner="old", claim_id="claimed", lease=LEASE, now=NOW, start=True
    )
    repo.claims.finish([completed(claimed, started_at=NOW, finished_at=NOW)], now=NOW)

    [stored] = documents.find({"_id": job.id})
    assert stored["status"] == Status.COMPLETED
    assert stored["fromLater"] == {"a": 1}
