"""One job: what its page tells, to whom, and what an operator can do there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from jobs.audit import Action
from jobs.executions import Execution, LogLine, execution_id
from jobs.lifecycle import Attempt, Job, Outcome, Response, Status
from jobs.repository.attempt_logs import LogBatch
from jobs.services import Services
from tests.builders import NOW, a_job, a_template
from tests.web.dashboard import browser_of, elements_of, messages_of, text_of

EVIL = "<script>alert('x')</script>"


def stored(pages: Services, **fields: Any) -> Job:
    job = a_job(**{"tenant_id": "a"} | fields)
    assert pages.repository.jobs.insert([job]) == [True]
    return job


def dead(pages: Services, **fields: Any) -> Job:
    """A dead letter with one attempt on record, and what that logged."""
    attempt = Attempt(
        1,
        "executor-1",
        NOW,
        NOW + timedelta(seconds=2),
        Outcome.FAILED,
        f"{EVIL} broke it",
        "ValueError",
        Response(422, f"{EVIL} is no order"),
    )
    job = stored(
        pages,
        **{
            "status": Status.DLQ,
            "attempts": 3,
            "last_error": f"{EVIL} broke it",
            "finished_at": NOW + timedelta(seconds=2),
            "history": (attempt,),
        }
        | fields,
    )
    shown_id = execution_id(job.id, "claim")
    execution = Execution(
        id=shown_id, job_id=job.id, tenant_id="a", job_type=job.job_type, attempt=attempt
    )
    pages.repository.executions.record([execution])
    line = LogLine(NOW, "WARNING", "orders", f"{EVIL} was looked for")
    pages.repository.attempt_logs.append([LogBatch(shown_id, 0, [line])], now=NOW)
    return job


def address(job: Job, action: str = "") -> str:
    return f"/admin/jobs/{job.id}/" + (f"{action}/" if action else "")


def test_it_tells_what_happened_and_what_each_attempt_said(pages: Services) -> None:
    origin = {"request_id": "request-1", "traceparent": f"00-{'a1' * 16}-{'b2' * 8}-01"}
    job = dead(
        pages, payload='{"order": 7}', tags=("billing", EVIL), idempotency_key=EVIL, **origin
    )

    answer = browser_of("vera", a="viewer").get(address(job))

    said = text_of(answer)
    for part in (
        "dead letter",
        "3 / 3",
        f"{EVIL} broke it",
        "request-1",
        "a1" * 16,
        "attempt 1 ended, failed: ValueError (executor-1)",
        "1 failed executor-1",
        "2.00 s 422",
        f"{EVIL} is no order",
        f"WARNING orders: {EVIL} was looked for",
        '"order": 7',
        f"billing, {EVIL}",
    ):
        assert part in said
    assert all("src" in script for script in elements_of(answer, "script"))


def test_a_viewer_has_no_buttons_and_no_rights(pages: Services) -> None:
    job = dead(pages)
    browser = browser_of("vera", a="viewer")

    forms = elements_of(browser.get(address(job)), "form")

    assert [form["action"] for form in forms] == ["/admin/logout/"]
    for action in ("redrive", "discard", "clone"):
        assert browser.post(address(job, action)).status_code == 403
    assert pages.repository.jobs.get(job.id).status is Status.DLQ


def test_another_tenants_job_is_not_there(pages: Services) -> None:
    job = dead(pages)
    browser = browser_of("otto", b="admin")

    assert browser.get(address(job)).status_code == 404
    assert browser.post(address(job, "redrive")).status_code == 404
    assert pages.repository.jobs.get(job.id).status is Status.DLQ


def test_who_is_not_logged_in_is_sent_to_the_login_page(pages: Services) -> None:
    job = dead(pages)

    assert Client().get(address(job)).status_code == 302
    assert Client().post(address(job, "redrive"))["Location"].startswith("/admin/login/")
    assert pages.repository.jobs.get(job.id).status is Status.DLQ


@pytest.mark.parametrize(
    ("status", "action", "becomes", "entry"),
    [
        (Status.DLQ, "redrive", Status.PENDING, Action.JOB_REDRIVE),
        (Status.DLQ, "discard", Status.CANCELLED, Action.JOB_DISCARD),
        (Status.PENDING, "cancel", Status.CANCELLED, Action.JOB_CANCEL),
        (Status.PENDING, "run", Status.PENDING, Action.JOB_RUN_NOW),
    ],
)
def test_an_action_is_done_told_and_recorded(
    pages: Services, status: Status, action: str, becomes: Status, entry: Action
) -> None:
    later = pages.repository.clock.now() + timedelta(days=1)
    job = stored(pages, status=status, scheduled_at=later)

    answer = browser_of("olga", a="operator").post(address(job, action), follow=True)

    assert "messagelist" in [each.get("class") for each in elements_of(answer, "ul")]
    assert pages.repository.jobs.get(job.id).status is becomes
    [found] = pages.repository.audit_log.page(["a"], limit=10, target=str(job.id))[0]
    assert (found.action, found.author.name) == (entry, "olga")


def test_a_refused_action_says_why_and_changes_nothing(pages: Services) -> None:
    job = stored(pages, status=Status.COMPLETED)

    answer = browser_of("olga", a="operator").post(address(job, "cancel"))

    assert answer.status_code == 302
    assert messages_of(answer) == [f"Job {job.id} is completed and cannot be cancelled."]
    assert pages.repository.jobs.get(job.id) == job


def test_a_job_is_rescheduled_and_given_another_priority(pages: Services) -> None:
    job = stored(pages)
    browser = browser_of("olga", a="operator")

    browser.post(address(job, "reschedule"), {"due": "2099-01-02T03:04"})
    browser.post(address(job, "priority"), {"priority": "-7"})

    changed = pages.repository.jobs.get(job.id)
    assert changed.scheduled_at.isoformat() == "2099-01-02T03:04:00+00:00"
    assert changed.priority == -7


@pytest.mark.parametrize(
    ("action", "field", "typed", "problem"),
    [
        ("reschedule", "due", "", "Say when."),
        ("reschedule", "due", "tomorrow", "This is no time"),
        ("reschedule", "due", "1969-01-01T00:00", "1970"),
        ("priority", "priority", "high", "This is no whole number."),
        ("priority", "priority", "99999999999", "32 bits"),
        ("clone", "clone_due", "31 June", "This is no time"),
    ],
)
def test_what_cannot_be_read_is_said_beside_its_field(
    pages: Services, action: str, field: str, typed: str, problem: str
) -> None:
    job = stored(pages)

    answer = browser_of("olga", a="operator").post(address(job, action), {field: typed})

    assert answer.status_code == 422
    assert problem in text_of(answer)
    [wrong] = [each for each in elements_of(answer, "input") if "aria-invalid" in each]
    assert (wrong["id"], wrong["value"]) == (field, typed)
    assert pages.repository.jobs.get(job.id) == job


def test_a_clone_has_a_page_of_its_own(pages: Services) -> None:
    job = dead(pages, payload='{"order": 7}')

    browser = browser_of("olga", a="operator")
    answer = browser.post(address(job, "clone"))

    clone_id = answer["Location"].split("/")[-2]
    assert clone_id != str(job.id)
    assert "This is the clone." in text_of(browser.get(answer["Location"]))


def test_a_template_has_its_own_page(pages: Services) -> None:
    template = a_template(tenant_id="a")
    pages.repository.jobs.insert([template])

    answer = browser_of("vera", a="viewer").get(address(template))

    assert answer["Location"] == f"/admin/templates/{template.id}/"


def test_a_broken_document_is_shown_with_what_is_wrong(pages: Services) -> None:
    job = stored(pages)
    pages.repository.jobs._jobs.update_one({"_id": job.id}, {"$set": {"priority": EVIL}})

    answer = browser_of("olga", a="operator").get(address(job))

    assert answer.status_code == 200
    assert "priority cannot be" in text_of(answer)
    assert all("src" in script for script in elements_of(answer, "script"))


def test_what_runs_refreshes_itself_and_what_is_over_does_not(pages: Services) -> None:
    running = stored(
        pages,
        status=Status.RUNNING,
        claimed_by="executor-1",
        claimed_at=NOW,
        started_at=NOW,
        claim_id="c",
        lease_until=NOW,
    )
    browser = browser_of("vera", a="viewer")

    answer = browser.get(address(running))
    part = browser.get(address(running), headers={"HX-Request": "true"})

    assert any(each.get("hx-trigger") == "every 2s" for each in elements_of(answer, "div"))
    assert "held by executor-1" in text_of(part)
    assert not elements_of(part, "html")
    over = browser.get(address(dead(pages)))
    assert not any("hx-trigger" in each for each in elements_of(over, "div"))


def test_secrets_are_nowhere_on_the_page(pages: Services) -> None:
    document = {
        "idempotencyKey": "with a secret",
        "tenantId": "a",
        "jobType": "http",
        "scheduledAt": "2099-01-01T00:00:00Z",
        "delivery": {
            "url": "https://example.com/hook",
            "secretHeaders": {"Authorization": "Bearer hush-hush"},
            "secret": "whsec_aHVzaC1odXNoLWh1c2gtaHVzaC1odXNoLWh1c2g=",
        },
    }
    job = pages.submit(document)

    answer = browser_of("olga", a="admin").get(address(job))

    assert "https://example.com/hook" in text_of(answer)
    assert "hush" not in answer.content.decode()
    assert "aHVza" not in answer.content.decode()


def test_an_error_of_ten_thousand_characters_is_shown_whole(pages: Services) -> None:
    job = stored(pages, status=Status.DLQ, last_error="x" * 10_000)

    assert "x" * 10_000 in text_of(browser_of("vera", a="viewer").get(address(job)))


def test_a_template_is_not_acted_on_as_a_job(pages: Services) -> None:
    template = a_template(tenant_id="a")
    pages.repository.jobs.insert([template])

    answer = browser_of("olga", a="operator").post(address(template, "cancel"))

    assert answer.status_code == 404
    assert pages.repository.jobs.get(template.id).status is Status.PENDING


def test_a_job_whose_tenant_was_edited_away_is_for_superusers(pages: Services) -> None:
    job = stored(pages)
    pages.repository.jobs._jobs.update_one({"_id": job.id}, {"$unset": {"tenantId": ""}})

    assert browser_of("otto", **{"None": "admin"}).get(address(job)).status_code == 404
    assert browser_of("root").get(address(job)).status_code == 200


def test_a_refused_form_goes_on_refreshing_the_job(pages: Services) -> None:
    job = stored(pages)

    answer = browser_of("olga", a="operator").post(address(job, "priority"), {"priority": "x"})

    assert [each["hx-get"] for each in elements_of(answer, "div") if "hx-get" in each] == [
        address(job)
    ]


def test_the_priority_zero_is_shown(pages: Services) -> None:
    answer = browser_of("olga", a="operator").get(address(stored(pages, priority=0)))

    [field] = [each for each in elements_of(answer, "input") if each.get("id") == "priority"]
    assert field["value"] == "0"
