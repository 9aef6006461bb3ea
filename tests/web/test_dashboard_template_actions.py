"""What people do to a cron template: pause, resume, run, cancel, redrive, backfill."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from jobs.lifecycle import Job, Status
from jobs.services import Services
from tests.web.dashboard import browser_of, elements_of, messages_of, text_of
from tests.web.templates import ACTIONS, LIST, NEW, edit_form, path_of, stored, value_of


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
    assert browser.get(NEW).status_code == 403
    assert pages.repository.jobs.get(template.id) == template


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
    assert "olga paused a template" in text


@pytest.mark.parametrize("until", ["2020-01-01T00:00", "soon"])
def test_a_pause_that_is_refused_keeps_what_was_typed(pages: Services, until: str) -> None:
    template = stored(pages)

    answer = browser_of("olga", a="operator").post(
        path_of(template, "pause"), {"reason": "a move", "until": until}
    )

    assert answer.status_code == 422
    assert text_of(answer).count("Until must be") == 1
    [field] = [each for each in elements_of(answer, "input") if each.get("name") == "until"]
    assert field["aria-invalid"] == "true"
    assert (value_of(answer, "reason"), value_of(answer, "until")) == ("a move", until)
    assert pages.repository.jobs.get(template.id) == template


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
    wrong = [each["name"] for each in elements_of(answer, "input") if "aria-invalid" in each]
    assert wrong == (["to"] if answer.status_code == 422 else [])
    assert "to-error" in [each.get("id") for each in elements_of(answer, "p")] or not wrong


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
