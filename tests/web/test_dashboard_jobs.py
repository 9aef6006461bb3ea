"""The list of jobs: what is on it, for whom, and how it is narrowed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from jobs.lifecycle import Job, Status
from jobs.services import Services
from tests.builders import NOW, a_job, a_template
from tests.web.dashboard import browser_of, elements_of, text_of

EVIL = "<script>alert('x')</script>"
PATH = "/admin/jobs/"


def store(pages: Services, **fields: Any) -> Job:
    job = a_job(**{"tenant_id": "a"} | fields)
    assert pages.repository.jobs.insert([job]) == [True]
    return job


def keys(answer: Any) -> list[str]:
    """The keys that are listed, in order."""
    return [
        row.job.idempotency_key for row in answer.context["rows"] if not hasattr(row, "problem")
    ]


def test_each_tab_lists_its_jobs(pages: Services) -> None:
    by_tab = {
        "pending": store(pages),
        "retrying": store(pages, attempts=1),
        "queued": store(pages, status=Status.QUEUED),
        "running": store(pages, status=Status.RUNNING),
        "completed": store(pages, status=Status.COMPLETED),
        "dlq": store(pages, status=Status.DLQ, finished_at=NOW),
        "cancelled": store(pages, status=Status.CANCELLED),
    }
    pages.repository.jobs.insert([a_template(tenant_id="a")])
    browser = browser_of("vera", a="viewer")

    names = {tab: job.idempotency_key for tab, job in by_tab.items()}
    # What waits for a retry is pending.
    listed = {
        **{tab: {name} for tab, name in names.items()},
        "pending": {names["pending"], names["retrying"]},
        "all": set(names.values()),
    }
    assert {tab: set(keys(browser.get(PATH, {"tab": tab}))) for tab in listed} == listed
    assert set(keys(browser.get(PATH))) == listed["all"]


def test_a_row_tells_what_matters(pages: Services) -> None:
    store(
        pages,
        status=Status.DLQ,
        idempotency_key=f"key {EVIL}",
        job_type=EVIL,
        tags=(EVIL,),
        attempts=3,
        max_attempts=5,
        started_at=NOW + timedelta(seconds=2),
        finished_at=NOW + timedelta(seconds=5),
        last_error=f"{EVIL}{'x' * 10_000}",
    )

    answer = browser_of("vera", a="viewer").get(PATH)

    said = text_of(answer)
    for part in (f"key {EVIL}", "dead letter", "3 / 5", "2.00 s", "3.00 s", "xxx"):
        assert part in said
    assert all("src" in script for script in elements_of(answer, "script"))
    assert len(answer.content) < 30_000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tenant", "b"),
        ("type", "slow"),
        ("definition", "invoice"),
        ("tag", "nightly"),
        ("error", "IS (broken"),
        ("since", "2026-01-15T12:00:01"),
    ],
)
def test_each_filter_leaves_the_one_job_that_fits(pages: Services, field: str, value: str) -> None:
    store(pages)
    wanted = store(
        pages,
        tenant_id="b",
        job_type="slow",
        definition="invoice",
        definition_version=1,
        tags=("nightly",),
        last_error="it is (broken)",
        created_at=NOW + timedelta(seconds=1),
    )

    assert keys(browser_of("root").get(PATH, {field: value})) == [wanted.idempotency_key]
    assert len(keys(browser_of("root").get(PATH))) == 2


def test_one_job_is_found_by_its_key_or_id(pages: Services) -> None:
    job, _ = store(pages, idempotency_key="invoice 7"), store(pages)
    browser = browser_of("vera", a="viewer")

    assert keys(browser.get(PATH, {"q": "invoice 7"})) == ["invoice 7"]
    assert keys(browser.get(PATH, {"q": str(job.id)})) == ["invoice 7"]
    assert keys(browser_of("otto", b="admin").get(PATH, {"q": "invoice 7"})) == []
    assert "No job has this key or id" in text_of(browser.get(PATH, {"q": "nonesuch"}))


def test_a_job_that_succeeded_at_once_took_one_attempt_wherever_it_is_shown(
    pages: Services,
) -> None:
    template = a_template(tenant_id="a")
    pages.repository.jobs.insert([template])
    job = store(pages, status=Status.COMPLETED, template_id=template.id)
    browser = browser_of("vera", a="viewer")

    for path in (PATH, f"{PATH}{job.id}/", f"/admin/templates/{template.id}/"):
        assert "1 / 3" in text_of(browser.get(path))


def test_pages_go_on_where_the_one_before_ended(pages: Services) -> None:
    jobs = [a_job(tenant_id="a", created_at=NOW + timedelta(seconds=n // 7)) for n in range(120)]
    pages.repository.jobs.insert(jobs)
    browser = browser_of("vera", a="viewer")

    seen, address = [], PATH
    while address:
        answer = browser.get(address)
        seen += keys(answer)
        store(pages, created_at=NOW + timedelta(days=1))
        older = answer.context["older"]
        address = PATH + older if older else ""

    assert len(seen) == len(set(seen)) == 120
    assert set(seen) == {job.idempotency_key for job in jobs}


def test_members_see_their_tenants_and_nobody_elses(pages: Services) -> None:
    store(pages)
    browser = browser_of("otto", b="admin")

    assert keys(browser.get(PATH)) == []
    assert keys(browser.get(PATH, {"tenant": "a"})) == []
    assert "There are no jobs yet" in text_of(browser.get(PATH))
    assert Client().get(PATH).status_code == 302


def test_what_cannot_be_read_is_said_beside_its_field(pages: Services) -> None:
    answer = browser_of("root").get(PATH, {"since": "noon", "template": "t", "error": "kept"})

    assert answer.status_code == 422
    fields = elements_of(answer, "input")
    wrong = {each["id"]: each["value"] for each in fields if "aria-invalid" in each}
    assert wrong == {"since": "noon", "template": "t"}
    assert "kept" in [each.get("value") for each in fields]


def test_a_broken_document_does_not_hide_the_others(pages: Services) -> None:
    broken, whole = store(pages), store(pages)
    pages.repository.jobs._jobs.update_one({"_id": broken.id}, {"$set": {"attempts": EVIL}})

    answer = browser_of("vera", a="viewer").get(PATH)

    assert keys(answer) == [whole.idempotency_key]
    assert "It cannot be read: " in text_of(answer)


def test_counts_stand_beside_the_tabs(pages: Services) -> None:
    store(pages, status=Status.CANCELLED)
    store(pages, tenant_id="b", status=Status.CANCELLED)

    assert "Cancelled 2" in text_of(browser_of("root").get(PATH))
    assert "Cancelled 1" in text_of(browser_of("vera", a="viewer").get(PATH))


def test_no_count_goes_beyond_a_thousand(pages: Services) -> None:
    shape = {"tenantId": "a", "kind": "job", "status": "cancelled"}
    pages.repository.jobs._jobs.insert_many(
        {**shape, "createdAt": NOW, "finishedAt": NOW} for _ in range(1_001)
    )
    browser = browser_of("vera", a="viewer")

    beyond = text_of(browser.get(PATH, {"tab": "dlq"}))
    pages.repository.jobs._jobs.delete_one({"status": "cancelled"})
    just = text_of(browser.get(PATH, {"tab": "dlq"}))

    assert "Cancelled 1,000+" in beyond
    assert "Cancelled 1,000" in just
    assert "Cancelled 1,000+" not in just


def test_clear_leaves_the_tab_alone(pages: Services) -> None:
    answer = browser_of("root").get(PATH, {"tab": "pending", "tenant": "zz"})

    assert f"{PATH}?tab=pending" in [each["href"] for each in elements_of(answer, "a")]
