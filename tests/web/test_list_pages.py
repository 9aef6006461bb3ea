"""What the lists of jobs, dead letters, operations and the audit log say, and where they lead."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from jobs.bulk import Filter, Kind
from jobs.lifecycle import Status
from jobs.services import Services
from tests.builders import NOW, a_job, a_template
from tests.web.dashboard import browser_of, elements_of, text_of


@pytest.fixture(autouse=True)
def empty(pages: Services) -> Iterator[None]:
    def clear() -> None:
        pages.repository.jobs._jobs.delete_many({})
        pages.repository.bulk._operations.delete_many({})

    clear()
    yield
    clear()


def test_the_list_of_jobs_counts_all_and_tells_when_each_was_created(pages: Services) -> None:
    now = pages.repository.clock.now()
    created = now - timedelta(hours=3, minutes=1)
    due = now + timedelta(hours=4, minutes=30)
    pages.repository.jobs.insert(
        [a_job(tenant_id="a", created_at=created, scheduled_at=due), a_job(tenant_id="b")]
    )

    everything = text_of(browser_of("root").get("/admin/jobs/"))
    member = text_of(browser_of("vera", a="viewer").get("/admin/jobs/"))

    assert "All 2 Pending 2" in everything
    assert "All 1 Pending Waiting for retry 0" in member
    assert "Attempt Created Due" in member
    assert "0 / 3 3 h ago in 4 h" in member


def dead(pages: Services, tenant: str, count: int = 1) -> None:
    values = {"status": Status.DLQ, "last_error": "card declined", "finished_at": NOW}
    pages.repository.jobs.insert([a_job(tenant_id=tenant, **values) for _ in range(count)])
    pages.repository.dead_letters.assign_groups()


def test_dead_letters_refresh_themselves_on_their_first_page(pages: Services) -> None:
    dead(pages, "a", 51)
    browser = browser_of("vera", a="viewer")

    first = browser.get("/admin/dead-letters/")
    [older] = [each["href"] for each in elements_of(first, "a") if each.get("rel") == "next"]
    second = browser.get(f"/admin/dead-letters/{older}")
    region = browser.get("/admin/dead-letters/", headers={"HX-Request": "true"})

    assert "refreshed every 15 s" in text_of(first)
    assert "every 15s" in [each.get("hx-trigger") for each in elements_of(first, "div")]
    assert "refreshed every" not in text_of(second)
    assert "card declined" in text_of(region)
    assert b"<html" not in region.content


def test_each_act_on_dead_letters_says_how_many_it_takes(pages: Services) -> None:
    dead(pages, "a", 2)
    dead(pages, "b")
    browser = browser_of("olga", a="operator", b="operator")

    everything = text_of(browser.get("/admin/dead-letters/"))
    filtered = text_of(browser.get("/admin/dead-letters/?tenant=b"))

    assert "Redrive all 3 Discard all 3 By error" in everything
    assert "Redrive all 2 Discard all 2" in everything
    assert "Redrive all 1 that are shown Discard all 1 that are shown" in filtered


def test_a_tenant_that_is_filtered_by_is_named_once(pages: Services) -> None:
    dead(pages, "b")
    browser = browser_of("root")
    of_one = pages.bulk.start(Kind.REDRIVE, Filter(tenant_id="b"), tenants=None)
    of_all = pages.bulk.start(Kind.REDRIVE, Filter(), tenants=None)

    shown = [
        text_of(browser.get(address))
        for address in (
            "/admin/dead-letters/redrive/?tenant=b",
            f"/admin/operations/{of_one.id}/",
            "/admin/dead-letters/redrive/",
            f"/admin/operations/{of_all.id}/",
        )
    ]

    assert ["tenant b" in each for each in shown] == [True, True, False, False]
    assert ["Of tenants" in each for each in shown] == [False, False, True, True]


def test_an_operation_that_did_nothing_has_no_bar(pages: Services) -> None:
    nothing = pages.bulk.start(Kind.REDRIVE, Filter(tenant_id="a"), tenants=None)
    browser = browser_of("root")

    waiting = browser.get(f"/admin/operations/{nothing.id}/")
    pages.bulk.cancel(nothing.id)
    over = browser.get(f"/admin/operations/{nothing.id}/")

    assert len(elements_of(waiting, "progress")) == 1
    assert elements_of(over, "progress") == []
    assert "0 of 0 redriven" in text_of(over)


def test_a_new_template_begins_beside_the_filters(pages: Services) -> None:
    answer = browser_of("olga", a="operator").get("/admin/templates/")

    assert "Filter New template As of" in text_of(answer)


def test_the_last_run_is_told_by_when_it_ran_not_by_its_occurrence(pages: Services) -> None:
    now = pages.repository.clock.now()
    template = a_template(tenant_id="a", scheduled_at=now + timedelta(days=9))
    run = a_job(
        tenant_id="a",
        template_id=template.id,
        status=Status.COMPLETED,
        occurrence_at=now - timedelta(days=29),
        created_at=now - timedelta(minutes=4),
        started_at=now - timedelta(minutes=3),
        finished_at=now - timedelta(minutes=2),
    )
    pages.repository.jobs.insert([template, run])

    shown = text_of(browser_of("vera", a="viewer").get("/admin/templates/"))

    assert "completed 2 min ago" in shown
