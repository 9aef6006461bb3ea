"""The pages of cron templates: the list, one of them, the form, and what people do there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from bson import ObjectId
from django.http import HttpResponse
from django.test import Client

from jobs.audit import Action
from jobs.lifecycle import Job, Status
from jobs.services import Services
from tests.builders import NOW, a_job, a_template
from tests.web.dashboard import browser_of, elements_of, messages_of, text_of

LIST: Final = "/admin/templates/"
NEW: Final = "/admin/templates/new/"
HOUR: Final = timedelta(hours=1)
SCRIPT: Final = "<script>alert(1)</script>"
FORM: Final = {"idempotencyKey": "nightly", "tenantId": "a", "jobType": "noop", "cron": "0 2 * * *"}
ACTIONS: Final = ("pause", "resume", "run", "cancel", "redrive", "backfill", "edit")


def path_of(template: Job, action: str = "") -> str:
    return f"{LIST}{template.id}/{action and action + '/'}"


def stored(services: Services, **fields: Any) -> Job:
    template = a_template(**({"tenant_id": "a", "cron": "0 2 * * *"} | fields))
    services.repository.jobs.insert([template])
    return template


def value_of(answer: HttpResponse, name: str) -> str:
    [value] = [each["value"] for each in elements_of(answer, "input") if each.get("name") == name]
    return str(value)


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
    for shown in (template.idempotency_key, "0 2 * * *", "At 02:00, Asia/Tokyo", "in 355", "4 5"):
        assert shown in text
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


def test_a_viewer_sees_and_cannot_act(pages: Services) -> None:
    template = stored(pages, payload='{"a":1}')
    browser = browser_of("vera", a="viewer")

    answer = browser.get(path_of(template))

    text = text_of(answer)
    assert answer.status_code == 200
    assert '"a": 1' in text
    assert "Run now" not in text
    assert not [each for each in elements_of(answer, "form") if LIST in each.get("action", "")]
    for action in ACTIONS:
        assert browser.post(path_of(template, action)).status_code == 403
    for action in ("edit", "backfill"):
        assert browser.get(path_of(template, action)).status_code == 403
    assert browser.get(NEW).status_code == 404
    assert pages.repository.jobs.get(template.id) == template


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


def test_people_pause_resume_run_cancel_and_redrive(pages: Services) -> None:
    template = stored(pages)
    browser = browser_of("olga", a="operator")

    def act(action: str, **typed: str) -> tuple[str, Job]:
        answer = browser.post(path_of(template, action), typed)
        assert answer["Location"] == path_of(template)
        return messages_of(answer)[-1], pages.repository.jobs.get(template.id)

    told, job = act("pause", reason="a move", until="2999-01-01T06:00")
    assert told == "Paused."
    assert (job.paused_reason, job.paused_by) == ("a move", "olga")
    assert job.paused_until == datetime(2999, 1, 1, 6, tzinfo=UTC)
    text = text_of(browser.get(path_of(template)))
    for shown in ("Paused by olga", "until 2999-01-01 06:00:00 UTC", "a move"):
        assert shown in text
    assert "When the pause has ended:" in text
    assert act("run")[0].startswith("A run was made")
    assert act("resume")[1].status is Status.PENDING
    assert act("cancel")[1].status is Status.CANCELLED
    assert "is cancelled and cannot be run" in act("run")[0]
    assert act("redrive")[1].status is Status.PENDING
    entries, _ = pages.repository.audit_log.page({"a"}, limit=10, target=str(template.id))
    assert {entry.author.name for entry in entries} == {"olga"}
    assert len(entries) == 5
    assert "template.pause by olga" in text


@pytest.mark.parametrize("until", ["2020-01-01T00:00", "soon"])
def test_a_pause_that_is_refused_keeps_what_was_typed(pages: Services, until: str) -> None:
    template = stored(pages)

    answer = browser_of("olga", a="operator").post(
        path_of(template, "pause"), {"reason": "a move", "until": until}
    )

    assert answer.status_code == 422
    assert "Until must be" in text_of(answer)
    assert (value_of(answer, "reason"), value_of(answer, "until")) == ("a move", until)
    assert pages.repository.jobs.get(template.id) == template


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
        ({"idempotencyKey": "used"}, "idempotencyKey", "Key 'used' is already used"),
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
    assert problem in text_of(answer)
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
        ({"cron": "*/15 * * *"}, "Cron must have five fields"),
        ({"cron": "0 0 * * *", "timezone": "Mars"}, 'Timezone "Mars" is not'),
        ({"cron": " "}, "is explained here"),
        ({}, "is explained here"),
    ],
    ids=str,
)
def test_the_preview_follows_what_is_typed(
    pages: Services, typed: dict[str, str], shown: str
) -> None:
    answer = browser_of("vera", a="viewer").get(f"{LIST}preview/", typed)

    assert answer.status_code == 200
    assert shown in text_of(answer)
    assert b"<html" not in answer.content


def edit_form(browser: Client, template: Job) -> dict[str, str]:
    answer = browser.get(path_of(template, "edit"))
    assert answer.status_code == 200
    return {
        "version": value_of(answer, "version"),
        "cron": value_of(answer, "cron"),
        "priority": value_of(answer, "priority"),
        "tags": value_of(answer, "tags"),
    }


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

    assert late.status_code == 422
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


def test_a_backfill_is_previewed_then_confirmed(pages: Services) -> None:
    template = stored(pages, cron="0 * * * *")
    browser = browser_of("olga", a="operator")
    path = path_of(template, "backfill")
    typed = {"from": "2026-01-01T00:00", "to": "2026-01-01T03:00"}

    preview = browser.get(path, typed)
    done = browser.post(path, typed)
    again = browser.get(path, typed)

    assert "3 occurrences, the first at 2026-01-01 00:00:00 UTC" in text_of(preview)
    assert "0 have a run already: 3 will be run" in text_of(preview)
    assert messages_of(done) == ["3 runs made, due now."]
    assert "Each of the 3 occurrences in this range has a run already" in text_of(again)
    runs = pages.repository.jobs.page("a", limit=10, template_id=template.id)
    assert len(runs.jobs) == 3


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ({"from": "2026-01-01T00:00", "to": "2025-01-01T00:00"}, "To must be later than from."),
        ({"from": "2026-01-01T00:00", "to": ""}, "To must be a date and time."),
        ({"from": "2020-01-01T00:00", "to": "2026-01-01T00:00"}, "more than 1,000 occurrences"),
        ({"from": "2026-01-01T00:10", "to": "2026-01-01T00:20"}, "There is no occurrence"),
    ],
    ids=str,
)
def test_a_range_that_cannot_be_used_is_told(
    pages: Services, typed: dict[str, str], problem: str
) -> None:
    template = stored(pages, cron="0 * * * *")

    answer = browser_of("olga", a="operator").get(path_of(template, "backfill"), typed)

    assert problem in text_of(answer)
    assert value_of(answer, "from") == typed["from"]


def test_a_dead_template_tells_why_and_can_be_mended(pages: Services) -> None:
    template = stored(pages, status=Status.DLQ, cron="nonsense", last_error="five fields")
    browser = browser_of("olga", a="operator")

    text = text_of(browser.get(path_of(template)))
    form = edit_form(browser, template)
    browser.post(path_of(template, "edit"), form | {"cron": "0 5 * * *"})
    browser.post(path_of(template, "redrive"))

    assert "It is a dead letter and spawns nothing: five fields" in text
    mended = pages.repository.jobs.get(template.id)
    assert (mended.status, mended.cron) == (Status.PENDING, "0 5 * * *")


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
