"""The pages of cron templates: the list, one of them, and who sees what."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from bson import ObjectId
from django.test import Client

from jobs.lifecycle import Status
from jobs.repository import template_lists
from jobs.services import Services
from tests.builders import NOW, a_job, a_template
from tests.web.dashboard import browser_of, elements_of, text_of
from tests.web.templates import ACTIONS, FORM, LIST, NEW, path_of, stored

HOUR: Final = timedelta(hours=1)
SCRIPT: Final = "<script>alert(1)</script>"


def test_nobody_sees_templates_without_logging_in(pages: Services) -> None:
    for path in (LIST, NEW, path_of(stored(pages))):
        assert Client().get(path)["Location"].startswith("/admin/login/")


def test_the_list_tells_when_a_template_fires_and_how_it_went(pages: Services) -> None:
    template = stored(
        pages,
        timezone="Asia/Tokyo",
        scheduled_at=datetime(2999, 1, 1, tzinfo=UTC),
        missed=4,
        skipped=5,
    )
    pages.repository.jobs.insert(
        [
            a_job(tenant_id="a", template_id=template.id, status=status, created_at=NOW + n * HOUR)
            for n, status in enumerate((Status.COMPLETED, Status.COMPLETED, Status.DLQ))
        ]
    )

    answer = browser_of("vera", a="viewer").get(LIST)

    text = text_of(answer)
    for shown in (template.idempotency_key, "0 2 * * *", "At 02:00, Asia/Tokyo", "4 5"):
        assert shown in text
    assert re.search(r"in \d{6} d ", text)
    assert "status status-active" in [each.get("class") for each in elements_of(answer, "span")]
    [svg] = [each for each in elements_of(answer, "svg") if each.get("class") == "strip"]
    assert svg["aria-label"] == "The last 3 runs: 2 completed, 1 dead letter"
    assert [each["class"] for each in elements_of(answer, "rect")] == ["good", "good", "bad"]
    assert "New template" not in text


def test_an_empty_list_says_so(pages: Services) -> None:
    assert "There are no templates yet" in text_of(browser_of("vera", a="viewer").get(LIST))
    assert "No template fits" in text_of(browser_of("vera").get(LIST, {"key": "x"}))


@pytest.mark.parametrize(
    "filters",
    [
        {"key": "ight"},
        {"status": "paused"},
        {"type": "slow"},
        {"definition": "hook"},
        {"tenant": "b"},
    ],
    ids=str,
)
def test_the_list_is_filtered(pages: Services, filters: dict[str, str]) -> None:
    stored(pages, idempotency_key="other")
    stored(
        pages,
        idempotency_key="nightly",
        tenant_id="b",
        status=Status.PAUSED,
        job_type="slow",
        definition="hook",
    )

    text = text_of(browser_of("root").get(LIST, filters))

    assert "nightly" in text
    assert "other" not in text


def test_a_filter_that_means_nothing_finds_nothing(pages: Services) -> None:
    stored(pages)

    answer = browser_of("root").get(LIST, {"status": "running"})

    assert "No template fits" in text_of(answer)


def test_a_long_list_goes_on(pages: Services) -> None:
    pages.repository.jobs.insert([a_template(tenant_id="a") for _ in range(51)])
    browser = browser_of("vera", a="viewer")

    answer = browser.get(LIST)
    [older] = [each["href"] for each in elements_of(answer, "a") if each.get("rel") == "next"]
    rest = browser.get(LIST + older)

    assert len(elements_of(answer, "tr")) == 51
    assert len(elements_of(rest, "tr")) == 2


def test_a_look_through_keys_says_how_far_it_came_and_goes_on(
    pages: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_lists, "LOOKED_AT", 3)
    stored(pages, idempotency_key="rare", created_at=NOW - HOUR)
    pages.repository.jobs.insert([a_template(tenant_id="a") for _ in range(5)])
    browser = browser_of("vera", a="viewer")

    answer = browser.get(LIST, {"key": "RAR"})
    [further] = [each["href"] for each in elements_of(answer, "a") if each.get("rel") == "next"]

    assert "Nothing was found yet. Looked back to 2026-01-15 12:00:00 UTC" in text_of(answer)
    assert " rare " in text_of(browser.get(LIST + further))


def test_another_tenants_user_sees_nothing(pages: Services) -> None:
    template = stored(pages, idempotency_key="secret-name")
    browser = browser_of("oscar", b="operator")

    assert "secret-name" not in text_of(browser.get(LIST))
    assert "secret-name" not in text_of(browser.get(LIST, {"tenant": "a"}))
    for path in (path_of(template), path_of(template, "edit"), path_of(template, "backfill")):
        assert browser.get(path).status_code == 404
    for action in ACTIONS:
        assert browser.post(path_of(template, action)).status_code == 404
    assert pages.repository.jobs.get(template.id) == template


def test_what_is_no_template_is_not_there(pages: Services) -> None:
    job = a_job(tenant_id="a")
    pages.repository.jobs.insert([job])

    for path in (path_of(job), f"{LIST}{ObjectId()}/"):
        assert browser_of("root").get(path).status_code == 404
    assert browser_of("root").post(path_of(stored(pages), "explode")).status_code == 404


def test_one_template_tells_all_about_itself(pages: Services) -> None:
    template = stored(pages, cron="30 2 * * *", timezone="Europe/Berlin", tags=("x", "y"))
    run = a_job(
        tenant_id="a", template_id=template.id, status=Status.DLQ, last_error="it broke", attempts=3
    )
    pages.repository.jobs.insert([run])

    answer = browser_of("olga", a="operator").get(path_of(template))

    text = text_of(answer)
    for shown in ("At 02:30", "Europe/Berlin", "x, y", "3 / 3", "it broke", "Next five"):
        assert shown in text
    assert len(elements_of(answer, "ol")) == 1


def test_clock_changes_among_the_next_occurrences_are_marked(pages: Services) -> None:
    # The last Sunday of March, on which clocks go forward in Berlin.
    template = stored(pages, cron="30 2 25-31 3 */7", timezone="Europe/Berlin")

    text = text_of(browser_of("olga", a="operator").get(path_of(template)))

    assert text.count("The clock goes forward by 1 h on this day.") == 5
    assert text.count("it fires right after the gap") == 5


def test_what_people_write_is_text(pages: Services) -> None:
    template = stored(
        pages,
        idempotency_key=SCRIPT,
        tenant_id=SCRIPT,
        job_type=SCRIPT,
        definition=SCRIPT,
        overrides="{}",
        tags=(SCRIPT,),
        payload=f'{{"a":"{SCRIPT}"}}',
        retry={"a": SCRIPT},
        delivery=f'{{"url":"{SCRIPT}"}}',
        status=Status.PAUSED,
        paused_reason=SCRIPT,
        paused_by=SCRIPT,
        cron=SCRIPT,
        timezone=SCRIPT,
    )
    run = a_job(tenant_id=SCRIPT, template_id=template.id, last_error=SCRIPT * 500)
    pages.repository.jobs.insert([run])
    browser = browser_of("root")

    for path in (LIST, path_of(template), path_of(template, "edit"), path_of(template, "backfill")):
        answer = browser.get(path)
        assert answer.status_code == 200, path
        assert SCRIPT.encode() not in answer.content
    for field in FORM:
        assert SCRIPT.encode() not in browser.post(NEW, FORM | {field: SCRIPT}).content
    assert SCRIPT.encode() not in browser.get(f"{LIST}preview/", {"cron": SCRIPT}).content


def test_a_template_that_was_edited_by_hand_breaks_no_page(pages: Services) -> None:
    template = stored(pages)
    other = stored(pages, cron="nonsense")
    documents = pages.repository.jobs._jobs
    delivery = '{"url": "https://example.com", "secret": "sealed-text"}'
    documents.update_one(
        {"_id": template.id}, {"$set": {"cron": 5, "missed": "x", "delivery": delivery}}
    )
    browser = browser_of("olga", a="operator")

    listed = browser.get(LIST)
    shown = browser.get(path_of(template))
    broken = browser.get(path_of(other))

    assert (listed.status_code, shown.status_code, broken.status_code) == (200, 200, 200)
    assert "cannot be read" in text_of(shown)
    assert b"sealed-text" not in shown.content
    assert "five fields" in text_of(broken)
    assert browser.get(path_of(template, "edit")).status_code == 404
