"""The form of a cron template: made and edited, with a preview and errors beside the fields."""

from __future__ import annotations

import pytest
from bson import ObjectId

from jobs.audit import Action
from jobs.lifecycle import Status
from jobs.services import Services
from tests.web.dashboard import browser_of, elements_of, text_of
from tests.web.templates import FORM, LIST, NEW, edit_form, path_of, stored, value_of


def test_an_operator_makes_a_template(pages: Services) -> None:
    browser = browser_of("olga", a="operator")
    typed = FORM | {
        "timezone": "Asia/Tokyo",
        "catchUp": "all",
        "overlap": "skip",
        "payload": '{"a": 1}',
        "priority": "7",
        "maxAttempts": "2",
        "tags": "x, y",
        "retry": '{"strategy": "fixed"}',
        "timeoutSeconds": "1.5",
    }

    answer = browser.post(NEW, typed)

    [entry], _ = pages.repository.audit_log.page({"a"}, limit=2)
    assert (entry.author.name, entry.action) == ("olga", Action.TEMPLATE_CREATE)
    made = pages.repository.jobs.get(ObjectId(entry.targets[0]))
    assert answer["Location"] == path_of(made)
    assert (made.cron, made.timezone, made.catch_up, made.overlap) == (
        "0 2 * * *",
        "Asia/Tokyo",
        "all",
        "skip",
    )
    assert (made.payload, made.priority, made.max_attempts) == ('{"a":1}', 7, 2)
    assert (made.tags, made.retry, made.timeout_seconds) == (("x", "y"), {"strategy": "fixed"}, 1.5)


@pytest.mark.parametrize(
    ("typed", "field", "problem"),
    [
        ({"cron": "0 25 * * *"}, "cron", 'Expression hour "25" must be from 0 to 23.'),
        ({"cron": ""}, "cron", "Expression is required."),
        ({"timezone": "Mars"}, "timezone", 'Time zone "Mars" is not an IANA name'),
        ({"payload": "{"}, "payload", "Payload is not usable JSON"),
        ({"payload": "[]"}, "payload", "Payload must be an object"),
        ({"priority": "high"}, "priority", 'Priority must be an integer of 32 bits, not "high".'),
        ({"tenantId": "b"}, "tenantId", "Tenant is none in which you may make templates."),
        ({"jobType": "nope"}, "jobType", "Job type must be one of"),
        ({"definition": "gone", "jobType": ""}, "definition", "Definition names none"),
        ({"idempotencyKey": "used"}, "idempotencyKey", "Key is taken. Choose another"),
        ({"delivery": "{}"}, "delivery", "Delivery is only for jobType"),
    ],
    ids=str,
)
def test_an_error_stands_beside_its_field_and_nothing_typed_is_lost(
    pages: Services, typed: dict[str, str], field: str, problem: str
) -> None:
    stored(pages, idempotency_key="used")
    before = pages.repository.template_lists.page(None, limit=10)

    answer = browser_of("olga", a="operator").post(NEW, FORM | {"tags": "x"} | typed)

    assert answer.status_code == 422
    assert text_of(answer).count(problem) == 1
    invalid = [
        each["name"]
        for tag in ("input", "textarea", "select")
        for each in elements_of(answer, tag)
        if "aria-invalid" in each
    ]
    assert invalid == [field]
    assert value_of(answer, "tags") == "x"
    assert pages.repository.template_lists.page(None, limit=10) == before


def test_the_preview_works_without_scripts(pages: Services) -> None:
    answer = browser_of("olga", a="operator").post(NEW, FORM | {"preview": "1"})

    assert answer.status_code == 200
    assert "At 02:00 (UTC)" in text_of(answer)
    assert value_of(answer, "idempotencyKey") == "nightly"
    assert pages.repository.template_lists.page(None, limit=10).jobs == []


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ({"cron": "*/15 * * * *", "timezone": "Asia/Tokyo"}, "Every 15 minutes (Asia/Tokyo)"),
        ({"cron": "*/15 * * *"}, "Expression must have five fields"),
        ({"cron": "0 0 * * *", "timezone": "Mars"}, 'Time zone "Mars" is not'),
        ({"cron": " "}, "is explained here"),
        ({}, "is explained here"),
    ],
    ids=str,
)
def test_the_preview_follows_what_is_typed(
    pages: Services, typed: dict[str, str], shown: str
) -> None:
    answer = browser_of("vera", a="viewer").post(f"{LIST}preview/", typed)

    assert answer.status_code == 200
    assert shown in text_of(answer)
    assert b"<html" not in answer.content


def test_an_operator_edits_a_template(pages: Services) -> None:
    template = stored(pages, tags=("x", "y"), priority=3)
    browser = browser_of("olga", a="operator")

    form = edit_form(browser, template)
    answer = browser.post(path_of(template, "edit"), form | {"priority": "8"})

    assert answer["Location"] == path_of(template)
    changed = pages.repository.jobs.get(template.id)
    assert (changed.priority, changed.tags, changed.cron) == (8, ("x", "y"), "0 2 * * *")


def test_of_two_who_edit_the_second_is_told_and_loses_nothing(pages: Services) -> None:
    template = stored(pages, priority=3)
    browser = browser_of("olga", a="operator")
    form = edit_form(browser, template)
    browser.post(path_of(template, "edit"), form | {"priority": "8"})

    late = browser.post(path_of(template, "edit"), form | {"priority": "9", "tags": "z"})

    assert late.status_code == 409
    assert "Somebody else has edited the template" in text_of(late)
    assert "Now stored: 8" in text_of(late)
    assert (value_of(late, "priority"), value_of(late, "tags")) == ("9", "z")
    assert pages.repository.jobs.get(template.id).priority == 8
    again = form | {"version": value_of(late, "version"), "priority": "9", "tags": "z"}
    browser.post(path_of(template, "edit"), again)
    assert pages.repository.jobs.get(template.id).priority == 9


def test_what_cannot_be_edited_says_so(pages: Services) -> None:
    template = stored(pages, status=Status.CANCELLED)
    browser = browser_of("olga", a="operator")

    answer = browser.post(path_of(template, "edit"), edit_form(browser, template))

    assert answer.status_code == 422
    assert "is cancelled and cannot be edited" in text_of(answer)
