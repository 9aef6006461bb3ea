"""What stands on the page of a job: neither secrets, nor too much, nor the same twice."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any, Final

import pytest
from django.http import HttpResponse

from jobs import attempts
from jobs.audit import Author, Via
from jobs.executions import execution_of
from jobs.json_text import loads
from jobs.lifecycle import Job, Status
from jobs.masking import MASK
from jobs.services import Services
from tests.builders import NOW, a_job, a_template
from tests.web.client import Api, body_of
from tests.web.dashboard import browser_of, text_of

SECRETS: Final = '{"password":"hunter2","to":{"X-Api-Key":"hunter2"},"order":7}'
SHOWN: Final = '"password": "***", "to": { "X-Api-Key": "***" }, "order": 7'
OLGA: Final = Author("olga", Via.ADMIN)


class _Folds(HTMLParser):
    """The texts of a page's <pre>, folded away or not."""

    def __init__(self) -> None:
        super().__init__()
        self.folded: list[str] = []
        self.open: list[str] = []
        self._depth = 0
        self._text: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._depth += tag == "details" and "open" not in dict(attrs)
        if tag == "pre":
            self._text = self.folded if self._depth else self.open
            self._text.append("")

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "details"
        if tag == "pre":
            self._text = None


def folds_of(answer: HttpResponse) -> _Folds:
    parser = _Folds()
    parser.feed(answer.content.decode())
    return parser


def stored(pages: Services, **fields: Any) -> Job:
    job = a_job(**{"tenant_id": "a"} | fields)
    assert pages.repository.jobs.insert([job]) == [True]
    return job


def path(job: Job) -> str:
    return f"/admin/jobs/{job.id}/"


def test_secrets_in_payload_and_result_are_masked_on_the_page_and_not_in_the_api(
    pages: Services, api: Api
) -> None:
    job = stored(pages, payload=SECRETS, result=SECRETS, status=Status.COMPLETED)

    answer = browser_of("olga", a="admin").get(path(job))

    assert "hunter2" not in answer.content.decode()
    assert text_of(answer).count(SHOWN) == 4
    assert body_of(api.get(f"/jobs/{job.id}"))["payload"] == loads(SECRETS)
    assert pages.repository.jobs.get(job.id).payload == SECRETS


def test_secrets_of_a_job_that_cannot_be_read_are_masked_too(pages: Services) -> None:
    job = stored(pages, payload=SECRETS)
    pages.repository.jobs._jobs.update_one({"_id": job.id}, {"$set": {"priority": "high"}})

    answer = browser_of("olga", a="admin").get(path(job))

    assert "hunter2" not in answer.content.decode()
    assert "order" in text_of(answer)


def test_secrets_of_a_template_are_masked_but_in_the_form_that_edits_them(pages: Services) -> None:
    template = a_template(tenant_id="a", cron="0 2 * * *", payload=SECRETS)
    pages.repository.jobs.insert([template])
    browser = browser_of("olga", a="operator")
    address = f"/admin/templates/{template.id}/"

    answer = browser.get(address)

    assert "hunter2" not in answer.content.decode()
    assert SHOWN in text_of(answer)
    assert "hunter2" in browser.get(f"{address}edit/").content.decode()
    assert browser_of("vera", a="viewer").get(f"{address}edit/").status_code == 403


def test_secrets_of_a_definition_are_masked(pages: Services) -> None:
    document = {"name": "hook", "tenantId": "a", "jobType": "noop"}
    payload = {"password": "hunter2", "order": 7}
    pages.definitions.create({**document, "payload": payload}, by=OLGA)
    address = {"tenant": "a", "name": "hook"}

    answer = browser_of("vera", a="viewer").get("/admin/definitions/one/", address)

    assert answer.status_code == 200
    assert "hunter2" not in answer.content.decode()
    assert '"password": "***"' in text_of(answer)


def test_the_audit_log_keeps_no_secret_of_a_payload(pages: Services) -> None:
    job = stored(pages, payload=SECRETS)
    pages.clone(job.id, by=OLGA)

    answer = browser_of("vera", a="viewer").get("/admin/audit/", {"target": str(job.id)})

    [entry] = pages.repository.audit_log.page(["a"], limit=2, target=str(job.id))[0]
    assert "hunter2" not in str(entry.after)
    assert f"'password': '{MASK}'" in str(entry.after)
    assert "hunter2" not in answer.content.decode()
    assert "cloned a job" in text_of(answer)


@pytest.mark.parametrize(
    ("kind", "error", "shown"),
    [
        ("RuntimeError", "RuntimeError: no paper", "RuntimeError: no paper"),
        ("RuntimeError", "RuntimeError", "RuntimeError"),
        ("HttpStatus", "the target answered 503", "HttpStatus: the target answered 503"),
        (None, "the executor is gone", "the executor is gone"),
    ],
)
def test_the_kind_of_an_error_is_told_once(
    pages: Services, kind: str | None, error: str, shown: str
) -> None:
    job = stored(pages)
    end = attempts.failed(
        replace(job, claim_id="c", claimed_by="executor-1"),
        error=error,
        error_class=kind,
        started_at=NOW,
        finished_at=NOW,
        random=0.5,
    )
    pages.repository.executions.record([execution_of(job, end)])

    assert shown in folds_of(browser_of("vera", a="viewer").get(path(job))).open


def test_a_retried_and_redriven_job_tells_all_it_waited_for(pages: Services) -> None:
    job = stored(pages, attempts=1, status=Status.DLQ, finished_at=NOW + timedelta(seconds=9))
    claimed = replace(
        job,
        attempts=0,
        claim_id="c",
        claimed_by="executor-1",
        queued_at=NOW + timedelta(seconds=1),
        claimed_at=NOW + timedelta(seconds=3),
    )
    started_at, finished_at = NOW + timedelta(seconds=6), NOW + timedelta(seconds=9)
    end = attempts.failed(
        claimed, error="boom", started_at=started_at, finished_at=finished_at, random=0.5
    )
    pages.repository.executions.record([execution_of(claimed, end)])
    browser = browser_of("olga", a="operator")

    browser.post(f"{path(job)}redrive/")

    shown = text_of(browser.get(path(job)))
    for part in (
        "UTC (+1.00 s) : queued, and its executors were woken",
        "UTC (+2.00 s) : claimed (executor-1)",
        "UTC (+3.00 s) : attempt 1 began (executor-1)",
        "UTC (+3.00 s) : attempt 1 ended, failed (executor-1)",
        ": redriven: attempts count from 1 again (olga)",
        ": due again",
    ):
        assert part in shown


def test_a_large_payload_is_folded_away_and_a_small_one_is_not(pages: Services) -> None:
    small = stored(pages, payload='{"order":7}')
    large = stored(pages, payload=f'{{"order":"{"x" * 3_000}"}}')
    browser = browser_of("vera", a="viewer")

    shown, folded = (folds_of(browser.get(path(job))) for job in (small, large))

    assert [text.split() for text in shown.open] == [["{", '"order":', "7", "}"]]
    assert folded.open == []
    assert sum("x" * 3_000 in text for text in folded.folded) == 2


def test_the_document_is_folded_away_at_the_end(pages: Services) -> None:
    job = stored(pages)

    *_, document = folds_of(browser_of("vera", a="viewer").get(path(job))).folded

    assert f'"idempotencyKey": "{job.idempotency_key}"' in document
    assert '"maxAttempts": 3' in document


def test_entries_of_another_tenant_about_the_same_id_are_not_told(pages: Services) -> None:
    job = stored(pages)
    pages.cancel(job.id, by=OLGA)
    pages.repository.audit_log._entries.update_many({}, {"$set": {"tenantId": "b"}})

    member = text_of(browser_of("vera", a="viewer").get(path(job)))

    assert "olga" not in member
    assert "in the audit log" not in member
    assert "cancel (olga)" in text_of(browser_of("root").get(path(job)))


def test_every_relative_time_has_the_instant_as_its_title(pages: Services) -> None:
    job = stored(pages, created_at=NOW, scheduled_at=NOW)
    browser = browser_of("vera", a="viewer")
    exactly = "2026-01-15 12:00:00 UTC"

    for address, count in (("/admin/jobs/", 2), (path(job), 1)):
        said = browser.get(address).content.decode()
        times = re.findall(r"<time([^>]*)>[^<]* ago</time>", said)
        assert len(times) == count
        assert all(f'title="{exactly}"' in attributes for attributes in times)
