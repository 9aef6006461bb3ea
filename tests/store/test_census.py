"""What is due is counted within bounds, and who waits longest is found beyond them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from jobs.instants import EARLIEST
from jobs.lifecycle import Status
from jobs.repository import Repository
from jobs.repository.overview import Backlog
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

MINUTE: Final = timedelta(minutes=1)
OLD: Final = NOW - timedelta(days=1)


def test_types_are_those_that_have_a_pending_job(repo: Repository) -> None:
    repo.jobs.insert(
        [
            *(a_job(job_type="b") for _ in range(3)),
            a_job(job_type="a", scheduled_at=NOW + MINUTE, priority=5),
            a_job(job_type="done", status=Status.COMPLETED),
            a_template(job_type="template"),
        ]
    )

    assert repo.census.types_with_pending(limit=10) == ["a", "b"]
    assert repo.census.types_with_pending(limit=1) == ["a"]


def test_a_type_that_was_edited_into_a_list_hides_no_other(
    repo: Repository, documents: Documents
) -> None:
    edited = a_job(job_type="b")
    repo.jobs.insert([a_job(job_type="a"), edited, a_job(job_type="d")])
    documents.update_one({"_id": edited.id}, {"$set": {"jobType": ["c", "b", 7]}})

    assert repo.census.types_with_pending(limit=10) == ["a", "d"]


def test_a_backlog_is_what_is_due_of_a_type(repo: Repository) -> None:
    repo.jobs.insert(
        [
            a_job(job_type="mail", scheduled_at=NOW - MINUTE, created_at=OLD, priority=-1),
            a_job(job_type="mail", scheduled_at=NOW, priority=7),
            a_job(job_type="mail", scheduled_at=NOW + MINUTE),
            a_job(job_type="mail", scheduled_at=NOW - MINUTE, status=Status.QUEUED, claim_id="c"),
            a_job(job_type="other", scheduled_at=NOW - 2 * MINUTE),
            a_template(job_type="mail", scheduled_at=NOW - 2 * MINUTE),
        ]
    )

    assert repo.census.backlog("mail", now=NOW, limit=10) == Backlog(2, NOW - MINUTE, True)
    assert repo.census.backlog("nonesuch", now=NOW, limit=10) is None


def test_who_starves_behind_a_large_backlog_is_found_all_the_same(repo: Repository) -> None:
    starving = a_job(scheduled_at=NOW - 60 * MINUTE, created_at=OLD, priority=-3)
    repo.jobs.insert(
        [
            *(a_job(scheduled_at=NOW - MINUTE, priority=5) for _ in range(20)),
            *(a_job(scheduled_at=NOW - 2 * MINUTE, priority=each) for each in range(3)),
            starving,
        ]
    )

    assert repo.census.backlog("noop", now=NOW, limit=10) == Backlog(
        10, starving.scheduled_at, False
    )


def test_a_job_waits_since_it_was_submitted_where_it_was_due_before(repo: Repository) -> None:
    repo.jobs.insert(
        [
            *(a_job(scheduled_at=EARLIEST, created_at=NOW - MINUTE, priority=5) for _ in range(3)),
            a_job(scheduled_at=EARLIEST, created_at=NOW - 2 * MINUTE),
        ]
    )
    later = NOW + MINUTE

    whole = repo.census.backlog("noop", now=later, limit=10)
    part = repo.census.backlog("noop", now=later, limit=3)
    backlogs, _ = repo.overview.backlogs(now=later, tenants=None)

    assert whole == Backlog(4, NOW - 2 * MINUTE, True)
    assert part == Backlog(3, NOW - 2 * MINUTE, False)
    assert backlogs == {"noop": whole}


def test_what_was_edited_by_hand_hides_nothing(repo: Repository, documents: Documents) -> None:
    broken, mended, listed = a_job(), a_job(scheduled_at=NOW - MINUTE), a_job()
    repo.jobs.insert([broken, mended, listed])
    documents.update_one({"_id": broken.id}, {"$set": {"scheduledAt": [NOW], "priority": "high"}})
    documents.update_one({"_id": listed.id}, {"$set": {"jobType": ["noop"]}})

    backlog = repo.census.backlog("noop", now=NOW, limit=10)

    assert backlog is not None
    assert backlog.count == 3
    assert repo.census.types_with_pending(limit=10) == ["noop"]
