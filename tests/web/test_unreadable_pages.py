"""Requests that are too long to be read: below /admin/ a person is told, not a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.test import Client

from chronos_site.config import StoreConfig
from devstack.process import free_port
from jobs.repository import Repository
from jobs.services import Services
from tests.waiting import ANSWER_SECONDS
from tests.web.api_process import api_process
from tests.web.dashboard import browser_of, elements_of, text_of

LONG = "x" * 9000
NEW, PREVIEW = "/admin/templates/new/", "/admin/templates/preview/"


@pytest.fixture(scope="module")
def http(shared_store: StoreConfig, shared_repository: Repository) -> Iterator[httpx.Client]:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with (
        api_process(shared_store, port),
        httpx.Client(base_url=address, timeout=ANSWER_SECONDS, trust_env=False) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("headers", "query", "status", "told"),
    [
        ({}, f"?tag={LONG}", 414, "the request line is too long"),
        ({f"X-{n}": "1" for n in range(300)}, "", 431, "the headers are too long or too many"),
    ],
)
def test_a_page_for_people_json_for_programs(
    http: httpx.Client, headers: dict[str, str], query: str, status: int, told: str
) -> None:
    # The second on a connection that has served before, as a browser's.
    for warm_up in ("/healthz", "/admin/login/"):
        http.get(warm_up)
        page = http.get(f"/admin/jobs/{query}", headers=headers)

        assert page.status_code == status
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert f"The request cannot be read: {told}." in page.text
        assert '<a href="/admin/">' in page.text

    answer = http.get(f"/jobs{query or '?tenantId=t'}", headers=headers)
    assert answer.status_code == status
    assert answer.json() == {"error": told}


def test_a_preview_of_something_long_says_what_is_wrong_with_it(pages: Services) -> None:
    answer = browser_of("vera", a="viewer").post(PREVIEW, {"cron": LONG, "timezone": "UTC"})

    assert answer.status_code == 200
    assert "Expression" in text_of(answer)


def test_the_preview_is_sent_with_the_token_of_its_form(pages: Services) -> None:
    logged_in = browser_of("olga", a="operator")
    browser: Any = Client(enforce_csrf_checks=True)
    browser.cookies = logged_in.cookies
    form = browser.get(NEW)
    [preview] = [each for each in elements_of(form, "div") if each.get("id") == "preview"]
    [token] = {
        each["value"]
        for each in elements_of(form, "input")
        if each.get("name") == "csrfmiddlewaretoken"
    }

    typed = {"cron": "*/15 * * * *", "timezone": "UTC", "payload": "{}"}
    # htmx adds the fields of the form around; of those, the ones that are named here.
    sent = {
        name: value
        for name, value in (typed | {"csrfmiddlewaretoken": token}).items()
        if name in preview["hx-params"].split(", ")
    }

    assert preview["hx-post"] == PREVIEW
    assert sent.keys() == {"cron", "timezone", "csrfmiddlewaretoken"}
    assert "Every 15 minutes (UTC)" in text_of(browser.post(PREVIEW, sent))
    assert browser.post(PREVIEW, typed).status_code == 403
