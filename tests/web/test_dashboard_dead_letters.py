"""The page of dead letters: groups first, then each, and acts on all that a filter finds."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from jobs.bulk import Filter, Kind, Operation, State
from jobs.lifecycle import Job, Status
from jobs.repository import dead_letter_lists
from jobs.repository.nodes import Node
from jobs.services import Services
from reaper.bulk import BulkRunner
from tests.builders import NOW, a_job
from tests.web.dashboard import browser_of, elements_of, messages_of, text_of

PATH = "/admin/dead-letters/"
OPERATIONS = "/admin/operations/"
SCRIPT = "<script>alert(1)</script>"


def dead(pages: Services, count: int = 1, **fields: Any) -> list[Job]:
    """Dead letters of tenant a, unless told otherwise."""
    values: dict[str, Any] = {
        "tenant_id": "a",
        "status": Status.DLQ,
        "attempts": 3,
        "last_error": "order 17 is gone",
        "finished_at": NOW,
    }
    jobs = [a_job(**values | fields) for _ in range(count)]
    pages.repository.jobs.insert(jobs)
    pages.repository.dead_letters.assign_groups()
    return jobs


def do_all(pages: Services) -> None:
    """A reaper's part, as far as it goes."""
    runner = BulkRunner("reaper-1", 10_000, repository=pages.repository, stop=threading.Event())
    later = pages.repository.clock.now() + timedelta(seconds=60)
    while runner.run_once(later):
        later += timedelta(seconds=1)


def start(pages: Services, kind: Kind = Kind.REDRIVE, tenant: str | None = "a") -> Operation:
    return pages.bulk.start(kind, Filter(tenant_id=tenant), tenants=None)


def operation_after(pages: Services, answer: HttpResponse) -> Operation:
    """The one that a redirect leads to."""
    [newest] = pages.bulk.recent(tenants=None, limit=1)[0]
    assert answer.status_code == 302
    assert answer["Location"] == f"{OPERATIONS}{newest.id}/"
    return newest


def links(answer: HttpResponse) -> list[str]:
    return [link["href"] for link in elements_of(answer, "a")]


def test_groups_come_first_and_each_dead_letter_below(pages: Services) -> None:
    jobs = dead(pages, 3)
    dead(pages, definition="hook", job_type="http", last_error="hook.example answered 503")

    answer = browser_of("olga", a="operator").get(PATH)

    shown = text_of(answer)
    assert "order # is gone a noop – 3" in shown
    assert "hook.example answered # a http hook 1" in shown
    assert "Redrive all 3" in shown
    assert shown.index("order # is gone") < shown.index("order 17 is gone")
    assert all(job.idempotency_key in shown for job in jobs)
    assert "3 / 3" in shown


def test_a_group_leads_to_its_dead_letters(pages: Services) -> None:
    dead(pages)
    [other] = dead(pages, last_error="card declined", definition="hook")
    browser = browser_of("olga", a="operator")
    [to_group] = [
        link for link in links(browser.get(PATH)) if link.startswith("?") and "card" in link
    ]

    answer = browser.get(PATH + to_group)

    assert other.idempotency_key in text_of(answer)
    assert "order 17" not in text_of(answer)


def test_what_cannot_be_read_is_said_beside_its_field(pages: Services) -> None:
    dead(pages)

    answer = browser_of("root").get(PATH, {"since": "noon", "text": "kept"})

    assert answer.status_code == 422
    assert "The filter cannot be used, so nothing is shown." in text_of(answer)
    fields = elements_of(answer, "input")
    assert [each["value"] for each in fields if "aria-invalid" in each] == ["noon"]
    assert "kept" in [each.get("value") for each in fields]


def test_a_look_through_errors_says_how_far_it_came_and_goes_on(
    pages: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_lists, "LOOKED_INTO", 3)
    dead(pages, last_error="out of paper", finished_at=NOW - timedelta(hours=1))
    dead(pages, 5)
    browser = browser_of("vera", a="viewer")

    answer = browser.get(PATH, {"text": "PAPER"})
    [further] = [each["href"] for each in elements_of(answer, "a") if each.get("rel") == "next"]

    assert "Nothing was found yet. Looked back to 2026-01-15 12:00:00 UTC" in text_of(answer)
    assert "out of paper" in text_of(browser.get(PATH + further))


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("tenant=a", True),
        ("tenant=c", False),
        ("type=noop&definition=hook", True),
        ("type=slow", False),
        ("without=definition", False),
        ("text=ORDER+17", True),
        ("text=order+18", False),
        ("since=2026-01-15T12:00", True),
        ("until=2026-01-15T12:00", False),
    ],
)
def test_the_filter_stands_in_the_address(pages: Services, query: str, is_found: bool) -> None:
    [job] = dead(pages, definition="hook")

    answer = browser_of("root").get(f"{PATH}?{query}")

    assert (job.idempotency_key in text_of(answer)) == is_found
    assert ("No dead letter fits this filter." in text_of(answer)) != is_found


def test_a_time_that_is_none_is_told_beside_its_field_and_acts_on_nothing(pages: Services) -> None:
    dead(pages)
    browser = browser_of("root")

    answer = browser.get(f"{PATH}?since=yesterday")

    assert "This is no time" in text_of(answer)
    [field] = [each for each in elements_of(answer, "input") if each.get("name") == "since"]
    assert field["aria-describedby"] == "since-error"
    assert "Redrive" not in text_of(answer)
    assert browser.post(f"{PATH}redrive/?since=yesterday").status_code == 404


def test_a_redrive_by_filter_is_confirmed_watched_and_counted(pages: Services) -> None:
    jobs = dead(pages, 3)
    [other] = dead(pages, job_type="slow")
    browser = browser_of("olga", a="operator")
    address = f"{PATH}redrive/?type=noop"

    before = text_of(browser.get(address))
    operation = operation_after(pages, browser.post(address))
    waiting = browser.get(f"{OPERATIONS}{operation.id}/")
    do_all(pages)
    after = browser.get(f"{OPERATIONS}{operation.id}/")

    assert "job type noop" in before
    assert "Redrive 3 dead letters" in before
    assert "0 of 3" in text_of(waiting)
    assert "every 1s" in str(elements_of(waiting, "div"))
    assert "3 of 3" in text_of(after)
    assert "every 1s" not in str(elements_of(after, "div"))
    [bar] = elements_of(after, "progress")
    assert (bar["value"], bar["max"]) == ("3", "3")
    assert {pages.repository.jobs.get(job.id).status for job in jobs} == {Status.PENDING}
    assert pages.repository.jobs.get(other.id).status is Status.DLQ
    assert operation.author.name == "olga"


def test_a_discard_takes_only_the_tenants_that_one_may_act_in(pages: Services) -> None:
    [mine], [theirs], [foreign] = (dead(pages, tenant_id=tenant) for tenant in "abc")
    browser = browser_of("olga", a="operator", b="viewer")

    assert "Discard 1 dead letter" in text_of(browser.get(f"{PATH}discard/"))
    operation_after(pages, browser.post(f"{PATH}discard/"))
    do_all(pages)

    assert pages.repository.jobs.get(mine.id).status is Status.CANCELLED
    assert pages.repository.jobs.get(theirs.id).status is Status.DLQ
    assert pages.repository.jobs.get(foreign.id).status is Status.DLQ


def test_what_somebody_else_moved_meanwhile_is_told(pages: Services) -> None:
    jobs = dead(pages, 3)
    operation = start(pages)
    pages.redrive(jobs[0].id)
    do_all(pages)

    shown = text_of(browser_of("vera", a="viewer").get(f"{OPERATIONS}{operation.id}/"))

    assert "2 of 3" in shown
    assert "1: somebody else had moved it" in shown


def test_an_operation_can_be_cancelled_once(pages: Services) -> None:
    [job] = dead(pages)
    operation = start(pages)
    browser = browser_of("olga", a="operator")
    address = f"{OPERATIONS}{operation.id}/"

    assert "Cancel the rest" in text_of(browser.get(address))
    first = browser.post(f"{address}cancel/")
    second = browser.post(f"{address}cancel/")
    do_all(pages)

    assert messages_of(first) == ["Cancelled. What it has done stays done."]
    assert "It was over already." in messages_of(second)
    assert pages.repository.jobs.get(job.id).status is Status.DLQ
    assert "Cancel the rest" not in text_of(browser.get(address))
    found = pages.bulk.find(operation.id, tenants=None)
    assert found is not None
    assert found.state is State.CANCELLED


def test_without_a_reaper_the_pages_say_what_to_start(pages: Services) -> None:
    dead(pages)
    operation = start(pages)
    browser = browser_of("root")
    addresses = (f"{OPERATIONS}{operation.id}/", OPERATIONS, f"{PATH}redrive/")

    without = [text_of(browser.get(address)) for address in addresses]
    now = pages.repository.clock.now()
    pages.repository.nodes.report(Node("reaper-1", "reaper", now), now=now)
    with_one = [text_of(browser.get(address)) for address in addresses]

    assert all("python manage.py runreaper" in shown for shown in without)
    assert not any("python manage.py runreaper" in shown for shown in with_one)


def test_a_viewer_sees_and_cannot_act(pages: Services) -> None:
    [job] = dead(pages)
    operation = start(pages)
    browser = browser_of("vera", a="viewer")

    shown = text_of(browser.get(PATH))

    assert job.idempotency_key in shown
    assert "Redrive all" not in shown
    assert "Discard" not in shown
    for address in ("redrive/?tenant=a", "redrive/", "discard/"):
        assert browser.get(PATH + address).status_code == 403
        assert browser.post(PATH + address).status_code == 403
    assert "Cancel the rest" not in text_of(browser.get(f"{OPERATIONS}{operation.id}/"))
    assert browser.post(f"{OPERATIONS}{operation.id}/cancel/").status_code == 403


def test_who_is_an_operator_elsewhere_does_nothing_where_only_a_viewer(pages: Services) -> None:
    [job] = dead(pages)
    operation = start(pages)
    browser = browser_of("vera", a="viewer", b="operator")
    address = f"{OPERATIONS}{operation.id}/"

    assert "Cancel the rest" not in text_of(browser.get(address))
    assert browser.post(f"{address}cancel/").status_code == 403
    assert browser.post(f"{PATH}redrive/?tenant=a").status_code == 403
    assert browser.post(f"/admin/jobs/{job.id}/discard/").status_code == 403
    found = pages.bulk.find(operation.id, tenants=None)
    assert found is not None
    assert not found.is_over
    assert pages.repository.jobs.get(job.id).status is Status.DLQ


def test_another_tenants_user_sees_nothing(pages: Services) -> None:
    [job] = dead(pages)
    operations = [start(pages), start(pages, tenant=None)]
    browser = browser_of("otto", b="operator")

    assert job.idempotency_key not in text_of(browser.get(PATH))
    assert "There are no dead letters." in text_of(browser.get(PATH))
    assert browser.post(f"{PATH}redrive/?tenant=a").status_code == 404
    assert "Nothing was redriven" in text_of(browser.get(OPERATIONS))
    for operation in operations:
        assert browser.get(f"{OPERATIONS}{operation.id}/").status_code == 404
        assert browser.post(f"{OPERATIONS}{operation.id}/cancel/").status_code == 404


def test_nobody_is_sent_to_the_login(pages: Services) -> None:
    operation = start(pages)

    for address in (PATH, f"{PATH}redrive/", OPERATIONS, f"{OPERATIONS}{operation.id}/"):
        answer = Client().get(address)
        assert answer.status_code == 302
        assert "login" in answer["Location"]


def test_an_act_needs_a_post_with_its_token(pages: Services) -> None:
    dead(pages)
    operation = start(pages)
    browser = browser_of("root")
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = browser.cookies

    led_back = browser.get(f"{OPERATIONS}{operation.id}/cancel/")
    assert led_back["Location"] == f"{OPERATIONS}{operation.id}/"
    assert strict.post(f"{OPERATIONS}{operation.id}/cancel/").status_code == 403
    assert strict.post(f"{PATH}redrive/").status_code == 403
    assert browser.get(f"{PATH}burn/").status_code == 404


def test_scripts_and_long_errors_are_text(pages: Services) -> None:
    dead(
        pages,
        tenant_id=SCRIPT,
        job_type=SCRIPT,
        definition=SCRIPT,
        last_error=SCRIPT + "x" * 10_000,
        idempotency_key=SCRIPT,
    )
    operation = start(pages, tenant=SCRIPT)
    browser = browser_of("root")

    pages_shown = [
        browser.get(PATH),
        browser.get(PATH, {"text": SCRIPT, "tenant": SCRIPT}),
        browser.get(f"{PATH}redrive/", {"tenant": SCRIPT}),
        browser.get(OPERATIONS),
        browser.get(f"{OPERATIONS}{operation.id}/"),
    ]

    for answer in pages_shown:
        assert answer.status_code == 200
        assert SCRIPT not in answer.content.decode()
        assert "alert(1)" in text_of(answer)


def test_what_was_edited_by_hand_breaks_no_page(pages: Services) -> None:
    jobs = dead(pages, 4)
    documents = pages.repository.jobs._jobs
    edits: list[dict[str, Any]] = [
        {"jobType": 7},
        {"lastError": ["x"], "attempts": "three"},
        {"tenantId": {"a": 1}},
    ]
    for job, edit in zip(jobs, edits, strict=False):
        documents.update_one({"_id": job.id}, {"$set": edit})

    answer = browser_of("root").get(PATH)

    assert answer.status_code == 200
    assert str(jobs[0].id) in text_of(answer)


def test_operations_are_listed_the_newest_first(pages: Services) -> None:
    dead(pages)
    start(pages)
    start(pages, Kind.DISCARD)

    shown = text_of(browser_of("vera", a="viewer").get(OPERATIONS))

    assert shown.index("discard tenant a") < shown.index("redrive tenant a")
