"""Lists of templates: whose, which, in what order, and what became of their runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest
from bson import ObjectId

from jobs.lifecycle import Status
from jobs.repository import Repository
from jobs.repository.documents import BrokenJob
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

MINUTE: Final = timedelta(minutes=1)


def keys(repo: Repository, tenants: set[str] | None = None, **filters: Any) -> list[str]:
    page = repo.template_lists.page(tenants, limit=100, **filters)
    return [job.idempotency_key for job in page.jobs if not isinstance(job, BrokenJob)]


def test_templates_come_newest_first_a_page_at_a_time(repo: Repository) -> None:
    repo.jobs.insert(
        [a_template(idempotency_key=f"t{n}", created_at=NOW + n * MINUTE) for n in range(5)]
    )
    repo.jobs.insert([a_job()])

    first = repo.template_lists.page(None, limit=3)
    last = repo.template_lists.page(None, limit=3, before=first.next)

    shown = [job.idempotency_key for page in (first, last) for job in page.jobs]  # type: ignore[union-attr]
    assert shown == ["t4", "t3", "t2", "t1", "t0"]
    assert last.next is None


def test_templates_of_other_tenants_are_not_there(repo: Repository) -> None:
    repo.jobs.insert([a_template(idempotency_key=name, tenant_id=name) for name in "abc"])

    assert sorted(keys(repo)) == ["a", "b", "c"]
    assert sorted(keys(repo, {"a", "c"})) == ["a", "c"]
    assert keys(repo, set()) == []


@pytest.mark.parametrize(
    "filters",
    [
        {"status": Status.PAUSED},
        {"job_type": "slow"},
        {"definition": "hook"},
        {"key": "IGHTLY-.rep"},
        {"status": Status.PAUSED, "key": "report"},
    ],
    ids=str,
)
@pytest.mark.parametrize("tenants", [None, {"tenant-a"}])
def test_filters_find_what_they_say(
    repo: Repository, filters: dict[str, Any], tenants: set[str] | None
) -> None:
    wanted = a_template(
        idempotency_key="nightly-.report", status=Status.PAUSED, job_type="slow", definition="hook"
    )
    repo.jobs.insert([wanted, a_template(idempotency_key="nightly-x")])

    assert keys(repo, tenants, **filters) == ["nightly-.report"]


def test_what_is_large_is_not_read(repo: Repository) -> None:
    repo.jobs.insert([a_template(payload='{"a":1}', delivery="{}", overrides="{}")])

    [job] = repo.template_lists.page(None, limit=1).jobs

    assert not isinstance(job, BrokenJob)
    assert job.payload is job.delivery is job.overrides is None


def test_a_template_that_was_edited_by_hand_is_shown(
    repo: Repository, documents: Documents
) -> None:
    broken, good = a_template(), a_template()
    repo.jobs.insert([broken, good])
    documents.update_one({"_id": broken.id}, {"$set": {"cron": 5}})

    page = repo.template_lists.page(None, limit=10)

    assert {job.id for job in page.jobs} == {broken.id, good.id}
    assert [job.id for job in page.jobs if isinstance(job, BrokenJob)] == [broken.id]


def test_the_last_runs_of_each_template_come_newest_first(
    repo: Repository, documents: Documents
) -> None:
    one, other, idle = a_template(), a_template(), a_template()
    runs = [
        a_job(
            template_id=template.id,
            created_at=NOW + n * MINUTE,
            occurrence_at=NOW + n * MINUTE,
            status=Status.DLQ if n % 2 else Status.COMPLETED,
        )
        for template in (one, other)
        for n in range(25)
    ]
    asked_for = a_job(template_id=other.id, created_at=NOW + 30 * MINUTE)
    repo.jobs.insert([one, other, idle, *runs, asked_for])
    documents.update_one({"_id": runs[24].id}, {"$set": {"status": 3, "occurrenceAt": "late"}})

    found = repo.template_lists.last_runs([one.id, other.id, idle.id, ObjectId()])

    assert found.keys() == {one.id, other.id}
    assert [len(marks) for marks in found.values()] == [20, 20]
    assert (found[one.id][0].status, found[one.id][0].at) == ("3", None)
    assert [mark.id for mark in found[one.id][1:3]] == [runs[23].id, runs[22].id]
    assert [mark.status for mark in found[one.id][1:3]] == ["dlq", "completed"]
    assert (found[other.id][0].id, found[other.id][0].at) == (asked_for.id, NOW + 30 * MINUTE)
    assert found[other.id][0].ran_at == NOW + 30 * MINUTE
    assert repo.template_lists.last_runs([]) == {}
