"""The page of the processes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from jobs.repository.nodes import Node
from jobs.services import Services
from tests.web.dashboard import browser_of, text_of

PATH = "/admin/nodes/"


@pytest.fixture(autouse=True)
def nodes(pages: Services) -> Iterator[None]:
    pages.repository.nodes._nodes.delete_many({})
    yield
    pages.repository.nodes._nodes.delete_many({})


def report(pages: Services, name: str, role: str, seconds: int = 0, **fields: Any) -> None:
    """A process that reported some seconds ago."""
    at = pages.repository.clock.now() - timedelta(seconds=seconds)
    pages.repository.nodes.report(Node(name, role, at, **fields), now=at)


def test_each_process_says_what_it_does(pages: Services) -> None:
    report(pages, "s1", "scheduler", term=4)
    report(pages, "s2", "scheduler")
    report(pages, "e1", "executor", job_types=("noop", "http"), slots=16, busy=3)
    report(pages, "e2", "executor", slots=2, busy=2, is_draining=True)
    report(pages, "r1", "reaper")

    shown = text_of(browser_of("vera", a="viewer").get(PATH))

    assert "s1 scheduler leads (term 4)" in shown
    assert "s2 scheduler stands by" in shown
    assert "e1 executor serves noop, http 3 / 16" in shown
    assert "e2 executor draining: takes no more – 2 / 2" in shown
    assert "is running" not in shown


def test_one_that_gives_no_sign_of_life_is_said_to_be_silent_and_missed(pages: Services) -> None:
    report(pages, "s1", "scheduler", seconds=60, term=4)
    report(pages, "r1", "reaper")

    shown = text_of(browser_of("root").get(PATH))

    assert "s1 scheduler no sign of life" in shown
    assert "No scheduler is running. Start one: python manage.py runscheduler" in shown
    assert "No reaper" not in shown


def test_where_there_is_none_a_sentence_says_so(pages: Services) -> None:
    shown = text_of(browser_of("root").get(PATH))

    assert "No process was seen within a day." in shown
    assert "No executor is running." in shown


def test_what_was_put_in_by_hand_is_text_and_breaks_nothing(pages: Services) -> None:
    now = pages.repository.clock.now()
    report(pages, "<script>x</script>", "<script>y</script>", job_types=("<script>z</script>",))
    pages.repository.nodes._nodes.insert_one({"_id": 7, "seenAt": now, "role": []})

    answer = browser_of("root").get(PATH)

    assert answer.status_code == 200
    assert b"<script>x" not in answer.content
    for name in "xyz":
        assert f"<script>{name}</script>" in text_of(answer)


def test_strangers_see_nothing(pages: Services) -> None:
    assert Client().get(PATH).status_code == 302
    assert browser_of("root").post(PATH).status_code == 405
