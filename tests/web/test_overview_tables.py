"""What the tables and the chart of the overview let somebody read."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pytest

from jobs.dashboard import overview
from jobs.repository import overview as overview_store
from jobs.repository.nodes import Node
from jobs.services import Services
from jobs.statistics import Resolution, Stretch, Tally
from tests.web.dashboard import browser_of, elements_of, text_of

PATH: Final = "/admin/overview/"


pytestmark = pytest.mark.usefixtures("nothing_to_see")


def store(pages: Services, *, status: str, count: int = 1, **fields: str) -> None:
    now = pages.repository.clock.now()
    common = {"tenantId": "a", "jobType": "mail", "kind": "job", "priority": 0, "finishedAt": now}
    pages.repository.jobs._jobs.insert_many(
        {**common, "status": status, "scheduledAt": now, "createdAt": now, **fields}
        for _ in range(count)
    )


def test_a_type_that_is_only_queued_has_a_row_of_its_own(pages: Services) -> None:
    store(pages, status="queued", count=3)
    store(pages, status="queued", tenantId="b", jobType="secret")

    everything = text_of(browser_of("root").get(PATH))
    member = text_of(browser_of("vera", a="viewer").get(PATH))

    assert "mail 0 – 3 0 0 / 0 0.0 –" in everything
    assert "secret 0 – 1 0 0 / 0" in everything
    assert "mail 0 – 3 0 0 / 0" in member
    assert "secret" not in member


def test_a_type_that_nobody_serves_is_found_behind_many_that_are_queued(
    pages: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview_store, "COUNTED", 2)
    now = pages.repository.clock.now()
    pages.repository.nodes.report(Node("e", "executor", now, ("mail",)), now=now)
    store(pages, status="queued", count=3)
    store(pages, status="queued", jobType="unserved")

    shown = text_of(browser_of("root").get(PATH))

    assert "mail 0 – 2+ 1" in shown
    assert "unserved 0 – 1+ 0" in shown
    assert "Jobs of type unserved are due and no executor takes them" in shown


def test_busy_slots_are_named_as_those_of_the_executors(pages: Services) -> None:
    now = pages.repository.clock.now()
    node = Node("e", "executor", now, ("mail", "sms"), slots=8, busy=3)
    pages.repository.nodes.report(node, now=now)

    shown = text_of(browser_of("root").get(PATH))

    assert "Busy slots of its executors" in shown
    assert "mail 0 – 0 1 3 / 8" in shown
    assert "sms 0 – 0 1 3 / 8" in shown


def test_dead_letters_by_tenant_say_where_counting_stopped(
    pages: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview_store, "TENANTS", 2)
    monkeypatch.setattr(overview, "TENANTS", 2)
    told = "Counted are only the first 2 tenants by name; there are more."
    store(pages, status="dlq", tenantId="a")
    store(pages, status="dlq", tenantId="b", count=3)

    before = text_of(browser_of("root").get(PATH))
    store(pages, status="dlq", tenantId="c", count=9)
    after = text_of(browser_of("root").get(PATH))
    member = text_of(browser_of("mia", a="viewer", b="viewer", c="viewer").get(PATH))

    assert "Tenant Dead letters b 3 a 1" in before
    assert told not in before
    assert "Tenant Dead letters b 3 a 1" in after
    assert told in after
    assert told in member


def test_each_bar_can_be_read_and_the_lags_follow_the_range(pages: Services) -> None:
    at = Resolution.QUARTER.start_of(pages.repository.clock.now())
    tally = Tally(completed=30, failed=10)
    stretch = Stretch(Resolution.QUARTER, at, "mail", None)
    pages.repository.statistics.add({stretch: tally}, batch="one")
    until = at + timedelta(minutes=15)

    answer = browser_of("root").get(PATH, {"range": "24h"})

    shown = text_of(answer)
    assert f"{at:%Y-%m-%d %H:%M} to {until:%H:%M} UTC: 30 completed, 10 failed" in shown
    assert f"Completed Failed {at:%Y-%m-%d %H:%M} {until:%H:%M} 30 10" in shown
    assert "Start lag p95, last 24h" in shown
    assert [each["y1"] for each in elements_of(answer, "line")] == ["0", "80", "160"]
    assert "2.7 1.3 0 Attempts ended per minute, last 24h" in shown
