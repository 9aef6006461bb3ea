"""Lists of jobs for people: what each page holds, and how a bounded look goes on."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.lifecycle import Job, Status, job_id_for
from jobs.repository import Repository, job_lists
from jobs.repository.job_lists import Place, Tab, Wanted
from tests.builders import NOW, a_job, a_template


def stored(repo: Repository, count: int, **fields: object) -> list[Job]:
    """So many jobs, the newest first, three a second."""
    jobs = [a_job(**{"created_at": NOW - timedelta(seconds=n // 3)} | fields) for n in range(count)]
    assert all(repo.jobs.insert(jobs))
    return sorted(jobs, key=lambda job: (job.created_at, job.id), reverse=True)


def test_a_look_that_finds_little_goes_on_where_it_stopped(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "LOOKED_AT", 10)
    jobs = stored(repo, 95)
    rare = [jobs[0], jobs[37], jobs[38], jobs[94]]
    for job in rare:
        repo.jobs._jobs.update_one({"_id": job.id}, {"$set": {"lastError": "Out of (paper)"}})
    wanted = Wanted(error_text="out OF (paper)")

    found, looks, place = [], 0, None
    while True:
        listed = repo.job_lists.page(wanted, None, limit=3, before=place)
        found += [job.id for job in listed.jobs]
        looks += 1
        assert (listed.looked_back_to is None) == (listed.next is None)
        if listed.next is None:
            break
        place = listed.next

    assert found == [job.id for job in rare]
    assert 6 <= looks <= 10


@pytest.mark.parametrize("tenants", [None, ["tenant-a"], ["tenant-a", "tenant-b"]], ids=str)
def test_a_look_gets_past_jobs_that_were_made_at_the_same_instant(
    repo: Repository, monkeypatch: pytest.MonkeyPatch, tenants: list[str] | None
) -> None:
    monkeypatch.setattr(job_lists, "LOOKED_AT", 10)
    same = [a_job() for _ in range(35)]
    older = a_job(created_at=NOW - timedelta(seconds=1), job_type="rare")
    assert all(repo.jobs.insert([*same, older]))

    found, place, looks = [], None, 0
    while looks < 10:
        listed = repo.job_lists.page(Wanted(job_type="rare"), tenants, limit=3, before=place)
        found += [job.id for job in listed.jobs]
        looks += 1
        if listed.next is None:
            break
        place = listed.next

    assert found == [older.id]
    assert looks == 4


def test_a_full_page_is_followed_by_the_next_without_a_gap(repo: Repository) -> None:
    jobs = stored(repo, 50, status=Status.COMPLETED)
    stored(repo, 20)

    found: list[object] = []
    place: Place | None = None
    for _ in range(8):
        listed = repo.job_lists.page(Wanted(tab=Tab.COMPLETED), None, limit=7, before=place)
        found += [job.id for job in listed.jobs]
        place = listed.next

    assert found == [job.id for job in jobs]
    assert place is None


def test_tenants_are_limited_in_the_query(repo: Repository) -> None:
    for tenant in ("a", "b", "c"):
        stored(repo, 2, tenant_id=tenant)

    def tenants_of(tenants: list[str] | None, wanted: Wanted) -> set[str]:
        page = repo.job_lists.page(wanted, tenants, limit=50)
        return {job.tenant_id for job in page.jobs if isinstance(job, Job)}

    assert tenants_of(None, Wanted()) == {"a", "b", "c"}
    assert tenants_of(["a", "c"], Wanted()) == {"a", "c"}
    assert tenants_of(["a", "c"], Wanted(tenant_id="c")) == {"c"}
    assert tenants_of(["a", "c"], Wanted(tenant_id="b")) == set()
    assert tenants_of([], Wanted()) == set()
    assert repo.job_lists.counts(["a"])[Tab.DEAD] == 0


def test_a_key_finds_its_job_and_no_other_tenants(repo: Repository) -> None:
    job = a_job(idempotency_key="invoice 7", tenant_id="a")
    template = a_template(tenant_id="a")
    repo.jobs.insert([job, template])

    assert repo.job_lists.search("invoice 7", None)[0].id == job.id
    assert repo.job_lists.search(str(template.id).upper(), ["a"])[0].id == template.id
    assert repo.job_lists.search("invoice 7", ["b"]) == []
    assert repo.job_lists.search("\x00", None) == []
    assert repo.job_lists.search(str(job_id_for("another")), None) == []


def test_counts_are_those_of_the_tabs(repo: Repository) -> None:
    for count, fields in (
        (3, {"attempts": 2}),
        (2, {"status": Status.DLQ, "finished_at": NOW}),
        (4, {"status": Status.CANCELLED}),
        (5, {"status": Status.CLAIMED}),
        (6, {"status": Status.RUNNING}),
        (7, {"status": Status.QUEUED}),
    ):
        stored(repo, count, **fields)

    assert repo.job_lists.counts(None) == {
        Tab.ALL: 27,
        Tab.PENDING: 3,
        Tab.RETRYING: 3,
        Tab.DEAD: 2,
        Tab.CANCELLED: 4,
        Tab.QUEUED: 7,
        Tab.RUNNING: 11,
    }


def test_each_count_stops_by_itself(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_lists, "COUNTED", 5)
    stored(repo, 4, status=Status.QUEUED)
    stored(repo, 4, status=Status.RUNNING)
    stored(repo, 9, status=Status.CANCELLED)

    counts = repo.job_lists.counts(None)

    assert (counts[Tab.QUEUED], counts[Tab.RUNNING], counts[Tab.CANCELLED]) == (4, 4, 6)
    assert counts[Tab.ALL] == 6


def test_all_jobs_are_counted_without_templates_and_within_tenants(repo: Repository) -> None:
    repo.jobs.insert([a_job(tenant_id="a"), a_job(tenant_id="b"), a_template(tenant_id="a")])

    assert repo.job_lists.counts(None)[Tab.ALL] == 2
    assert repo.job_lists.counts(["a", "c"])[Tab.ALL] == 1
    assert repo.job_lists.counts(["c"])[Tab.ALL] == 0


def test_all_jobs_are_not_counted_behind_too_many_templates(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "COUNTED", 1)
    repo.jobs.insert([a_job(created_at=NOW - timedelta(days=1), tenant_id="a")])
    repo.jobs.insert([a_template(tenant_id="a") for _ in range(4)])

    assert Tab.ALL not in repo.job_lists.counts(None)
    assert Tab.ALL not in repo.job_lists.counts(["a"])
