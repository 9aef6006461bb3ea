"""Lists of a tenant's jobs: newest first, filtered, and by cursor each exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from bson import ObjectId

from jobs.lifecycle import Status, job_id_for
from jobs.repository import Repository
from jobs.repository.documents import BrokenJob, to_document
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

SECOND: Final = timedelta(seconds=1)


def pages(repo: Repository, *, limit: int, **filters: Any) -> Iterator[list[ObjectId]]:
    """The ids of one page after another, to the last."""
    page = repo.jobs.page("tenant-a", limit=limit, **filters)
    while True:
        yield [job.id for job in page.jobs]
        if page.next is None:
            return
        page = repo.jobs.page("tenant-a", limit=limit, before=page.next, **filters)


def ids(repo: Repository, **filters: Any) -> list[ObjectId]:
    (page,) = pages(repo, limit=100, **filters)
    return page


def test_a_tenant_sees_its_jobs_and_templates_newest_first(repo: Repository) -> None:
    old = a_job(created_at=NOW)
    template = a_template(created_at=NOW + SECOND)
    new = a_job(created_at=NOW + 2 * SECOND, template_id=template.id)
    repo.jobs.insert([template, new, old, a_job(tenant_id="tenant-b")])

    page = repo.jobs.page("tenant-a", limit=100)

    assert page.jobs == [new, template, old]
    assert page.next is None


def test_a_full_page_at_the_end_is_the_last(repo: Repository) -> None:
    repo.jobs.insert([a_job() for _ in range(4)])

    assert [len(page) for page in pages(repo, limit=2)] == [2, 2]
    assert [len(page) for page in pages(repo, limit=3)] == [3, 1]
    assert [len(page) for page in pages(repo, limit=4)] == [4]


def test_no_jobs_are_an_empty_page(repo: Repository) -> None:
    page = repo.jobs.page("tenant-a", limit=10)

    assert (page.jobs, page.next) == ([], None)


def test_jobs_created_at_one_instant_are_each_seen_once(repo: Repository) -> None:
    jobs = [a_job() for _ in range(25)]
    repo.jobs.insert(jobs)

    seen = [job_id for page in pages(repo, limit=7) for job_id in page]

    assert seen == sorted((job.id for job in jobs), reverse=True)


def test_jobs_inserted_on_the_way_move_no_page(repo: Repository) -> None:
    jobs = [a_job(created_at=NOW + (number // 3) * SECOND) for number in range(20)]
    repo.jobs.insert(jobs)

    seen: list[ObjectId] = []
    for page in pages(repo, limit=4):
        seen += page
        # At the newest instant and at those of the pages behind.
        repo.jobs.insert([a_job(created_at=NOW + 7 * SECOND), a_job(created_at=NOW + 99 * SECOND)])

    before = {job.id for job in jobs}
    assert [job_id for job_id in seen if job_id in before] == [
        job.id for job in sorted(jobs, key=lambda job: (job.created_at, job.id), reverse=True)
    ]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({"status": Status.DLQ}, {"dead", "special"}),
        ({"status": Status.PENDING}, {"plain", "slow", "tagged", "run"}),
        ({"status": Status.PAUSED}, set()),
        ({"job_type": "slow"}, {"slow", "special"}),
        ({"tag": "b"}, {"tagged", "special"}),
        ({"template_id": job_id_for("t")}, {"run", "special"}),
        (
            {
                "status": Status.DLQ,
                "job_type": "slow",
                "tag": "b",
                "template_id": job_id_for("t"),
            },
            {"special"},
        ),
    ],
    ids=str,
)
def test_filters_narrow_the_list(
    repo: Repository, filters: dict[str, Any], wanted: set[str]
) -> None:
    jobs = {
        "plain": a_job(),
        "dead": a_job(status=Status.DLQ),
        "slow": a_job(job_type="slow"),
        "tagged": a_job(tags=("a", "b")),
        "run": a_job(template_id=job_id_for("t")),
        "special": a_job(
            status=Status.DLQ, job_type="slow", tags=("b",), template_id=job_id_for("t")
        ),
    }
    repo.jobs.insert(list(jobs.values()))
    repo.jobs.insert([a_job(tenant_id="tenant-b", status=Status.DLQ, tags=("b",))])

    assert set(ids(repo, **filters)) == {jobs[name].id for name in wanted}
    one_by_one = [len(page) for page in pages(repo, limit=1, **filters)]
    assert one_by_one == ([1] * len(wanted) or [0])


def test_broken_documents_stand_in_the_list(repo: Repository, documents: Documents) -> None:
    broken, fine = a_job(created_at=NOW), a_job(created_at=NOW + SECOND)
    documents.insert_one(to_document(broken) | {"priority": "high"})
    repo.jobs.insert([fine])

    page = repo.jobs.page("tenant-a", limit=10)

    assert page.jobs[0] == fine
    assert isinstance(page.jobs[1], BrokenJob)
    assert page.jobs[1].id == broken.id
    assert page.jobs == [fine, repo.jobs.read(broken.id)]


def test_a_text_that_looks_like_a_query_is_only_a_text(repo: Repository) -> None:
    repo.jobs.insert([a_job(tenant_id="$ne"), a_job()])

    assert len(repo.jobs.page("$ne", limit=10).jobs) == 1
