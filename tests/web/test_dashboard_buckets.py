"""The page of the minutes that were announced to fan-out workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings as site
from django.test import Client
from pytest_django import Settings

from jobs.services import Services
from tests.builders import NOW
from tests.web.dashboard import browser_of, text_of

PATH = "/admin/buckets/"


@pytest.fixture(autouse=True)
def buckets(pages: Services) -> Iterator[None]:
    pages.repository.buckets._buckets.delete_many({})
    yield
    pages.repository.buckets._buckets.delete_many({})


@pytest.fixture
def fanout(settings: Settings) -> None:
    settings.CHRONOS = replace(
        site.CHRONOS, scheduler=replace(site.CHRONOS.scheduler, fans_out=True)
    )


@pytest.mark.usefixtures("fanout")
def test_each_minute_says_who_triggered_it_and_open_ones_are_marked(pages: Services) -> None:
    store = pages.repository.buckets
    for number in range(2):
        minute = NOW + timedelta(minutes=number)
        store.insert(minute, due=31_337, by="sched-1", term=3, now=minute)
    store.close(NOW, partitions=8, by="sched-1", now=NOW)

    shown = text_of(browser_of("root").get(PATH))

    assert shown.index("12:01 open") < shown.index("12:00 triggered")
    assert "1 of these minutes is open" in shown
    assert "sched-1 3 8 31337" in shown


@pytest.mark.usefixtures("fanout")
def test_only_superusers_see_how_much_is_due_in_all_tenants(pages: Services) -> None:
    pages.repository.buckets.insert(NOW, due=31_337, by="s", term=1, now=NOW)

    assert "31337" not in text_of(browser_of("vera", a="admin").get(PATH))


def test_without_fan_out_the_page_explains_itself(pages: Services) -> None:
    shown = text_of(browser_of("vera", a="viewer").get(PATH))

    assert "DISPATCH=fanout" in shown
    assert "There are no buckets." in shown


@pytest.mark.usefixtures("fanout")
def test_an_empty_list_says_why(pages: Services) -> None:
    assert "No minute was announced" in text_of(browser_of("root").get(PATH))


def test_what_was_put_in_by_hand_is_text_and_breaks_nothing(pages: Services) -> None:
    pages.repository.buckets._buckets.insert_many(
        [
            {"_id": NOW, "triggeredBy": "<script>x</script>", "triggeredAt": NOW, "term": "x"},
            {"_id": "x"},
            {"_id": NOW + timedelta(minutes=1), "openedAt": 7, "due": []},
        ]
    )

    answer = browser_of("root").get(PATH)

    assert answer.status_code == 200
    assert "<script>x</script>" in text_of(answer)
    assert b"<script>x" not in answer.content


def test_strangers_see_nothing(pages: Services) -> None:
    assert Client().get(PATH).status_code == 302
    assert browser_of("root").post(PATH).status_code == 405
