"""MongoDB keeps its connections and says nothing (SIGSTOP): a page ends all the same, with 503."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.http import HttpResponse
from django.test import Client

from devstack.mongo import Mongod
from jobs.dashboard import middleware, page
from jobs.services import Services
from tests.web.dashboard import browser_of, text_of

ENOUGH_SECONDS = 15
"""Left alone, the driver waits for 19 to 33 s."""


@contextmanager
def stalled(server: Mongod) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def test_a_page_waits_no_longer_for_who_asks_than_for_a_primary(
    pages: Services, mongo_server: Mongod, caplog: pytest.LogCaptureFixture
) -> None:
    browser = browser_of("root")
    assert browser.get("/admin/overview/").status_code == 200

    with stalled(mongo_server):
        answer, seconds = _timed(lambda: browser.get("/admin/overview/"))

    assert_away(answer)
    assert seconds < ENOUGH_SECONDS
    [told] = [each for each in caplog.records if each.name == "jobs.dashboard.middleware"]
    assert mongo_server.address in told.getMessage()
    assert browser.get("/admin/overview/").status_code == 200


def test_a_page_without_a_session_ends_too(
    pages: Services, mongo_server: Mongod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "_PATIENCE", timedelta(seconds=2))
    typed = {"username": "olga", "password": "guessed"}
    assert Client().post("/admin/login/", typed).status_code == 200

    with stalled(mongo_server):
        answer, seconds = _timed(lambda: Client().post("/admin/login/", typed))

    assert_away(answer)
    assert seconds < ENOUGH_SECONDS


def test_a_store_that_falls_silent_within_a_page_costs_one_limit(
    pages: Services, mongo_server: Mongod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "_PATIENCE", timedelta(seconds=2))
    browser = browser_of("root")
    assert browser.get("/admin/jobs/").status_code == 200
    known = page.access_of

    def stall_after(user: object) -> object:
        found = known(user)  # type: ignore[arg-type]
        os.kill(mongo_server.pid, signal.SIGSTOP)
        return found

    monkeypatch.setattr(page, "access_of", stall_after)
    try:
        answer, seconds = _timed(lambda: browser.get("/admin/jobs/"))
    finally:
        os.kill(mongo_server.pid, signal.SIGCONT)

    assert_away(answer)
    assert seconds < ENOUGH_SECONDS


def assert_away(answer: HttpResponse) -> None:
    assert answer.status_code == 503
    assert "MongoDB does not answer." in text_of(answer)


def _timed(ask: Callable[[], HttpResponse]) -> tuple[HttpResponse, float]:
    begun = time.monotonic()
    answer = ask()
    return answer, time.monotonic() - begun
