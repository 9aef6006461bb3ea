"""The overview."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from jobs.dashboard.overview import problems
from jobs.instants import EARLIEST
from jobs.repository.nodes import Node
from jobs.services import Services
from jobs.statistics import Resolution, Stretch, Tally
from tests.web.dashboard import browser_of, elements_of, text_of

PATH = "/admin/overview/"
AT = datetime(2026, 1, 1, tzinfo=UTC)
SCRIPT = "<script>x</script>"


pytestmark = pytest.mark.usefixtures("nothing_to_see")


def pend(
    pages: Services, tenant: str, job_type: str, *, late: int, status: str = "pending"
) -> None:
    """A job that is due since some seconds; less than 0: that will be."""
    at = pages.repository.clock.now() - timedelta(seconds=late)
    pages.repository.jobs._jobs.insert_one(
        {
            "tenantId": tenant,
            "jobType": job_type,
            "status": status,
            "kind": "job",
            "priority": late % 3,
            "scheduledAt": at,
            "createdAt": at,
        }
    )


def count(pages: Services, tenant: str | None, job_type: str) -> None:
    at = Resolution.MINUTE.start_of(pages.repository.clock.now())
    tally = Tally(completed=30, failed=10, dead=2, lags=Counter({5: 40}))
    stretch = Stretch(Resolution.MINUTE, at, job_type, tenant)
    pages.repository.statistics.add({stretch: tally}, batch=f"{tenant}{job_type}")


def test_what_is_missing_is_said_with_what_to_do() -> None:
    found = problems([], {"mail"})

    assert [each.split(":")[0].split(" and ")[0] for each in found] == [
        "No scheduler leads",
        "No reaper is running",
        "Jobs of type mail are due",
    ]
    assert all("manage.py run" in each for each in found)


def test_where_all_are_there_nothing_is_said() -> None:
    nodes = [
        Node("s", "scheduler", AT, term=1),
        Node("r", "reaper", AT),
        Node("e", "executor", AT, ("mail",)),
    ]

    assert problems(nodes, {"mail"}) == []


def test_fan_out_workers_and_executors_that_drain_are_missed_too() -> None:
    nodes = [
        Node("s", "scheduler", AT, term=1),
        Node("r", "reaper", AT),
        Node("e", "executor", AT, ("mail",), is_draining=True),
    ]

    found = problems(nodes, {"mail"}, fans_out=True)

    assert [each.partition(":")[0] for each in found[:1]] == ["No fan-out worker is running"]
    assert len(found) == 2


def test_a_superuser_sees_all_tenants(pages: Services) -> None:
    pend(pages, "a", "mail", late=60)
    pend(pages, "b", "mail", late=121)
    pend(pages, "b", "later", late=-3600)
    count(pages, None, "mail")

    answer = browser_of("root").get(PATH)

    assert "Due now 2 oldest 2 min ago" in text_of(answer)
    assert "30 completed and 10 failed (red) in the last 1h; 2 became dead" in text_of(answer)
    assert "mail 2 2 min ago 0 0 0 / 0 0.7 25.0 %" in text_of(answer)


def test_failures_are_drawn_in_their_own_colour_on_top(pages: Services) -> None:
    count(pages, None, "mail")

    drawn = elements_of(browser_of("root").get(PATH), "rect")

    assert [(each["class"], each["y"], each["height"]) for each in drawn] == [
        ("good", "40.0", "120.0"),
        ("bad", "0.0", "40.0"),
    ]


def test_each_percentile_of_the_start_lag_is_its_own(pages: Services) -> None:
    at = Resolution.MINUTE.start_of(pages.repository.clock.now())
    tally = Tally(completed=100, lags=Counter({5: 50, 20: 45, 30: 4, 40: 1}))
    pages.repository.statistics.add(
        {Stretch(Resolution.MINUTE, at, "mail", None): tally}, batch="one"
    )

    shown = text_of(browser_of("root").get(PATH))

    # The middles of those buckets.
    for name, lag in (("p50", "5 ms"), ("p95", "861 ms"), ("p99", "28 s")):
        assert f"Start lag {name}, last 1h {lag}" in shown


@pytest.mark.parametrize(
    ("chosen", "completed"), [("1h", 1), ("24h", 2 + 4), ("7d", 8 + 16), ("nonsense", 1)]
)
def test_each_range_shows_all_that_ended_within_it(
    pages: Services, chosen: str, completed: int
) -> None:
    now = pages.repository.clock.now()
    ended = (
        (Resolution.MINUTE, timedelta(minutes=30), 1),
        (Resolution.QUARTER, timedelta(hours=2), 2),
        (Resolution.QUARTER, timedelta(hours=23), 4),
        (Resolution.TWO_HOURS, timedelta(hours=30), 8),
        (Resolution.TWO_HOURS, timedelta(days=6, hours=20), 16),
        (Resolution.TWO_HOURS, timedelta(days=8), 32),
    )
    for resolution, ago, count in ended:
        stretch = Stretch(resolution, resolution.start_of(now - ago), "mail", None)
        pages.repository.statistics.add({stretch: Tally(completed=count)}, batch=f"{ago}")

    assert f"{completed} completed and 0 failed" in text_of(
        browser_of("root").get(PATH, {"range": chosen})
    )


def test_roles_tell_who_leads_in_which_term(pages: Services) -> None:
    now = pages.repository.clock.now()
    for node in (
        Node("a-standby", "scheduler", now),
        Node("leader", "scheduler", now, term=77),
        Node("reaper-1", "reaper", now),
    ):
        pages.repository.nodes.report(node, now=now)

    shown = text_of(browser_of("root").get(PATH))

    _, _, roles = shown.partition("Leads in term Last seen ")
    assert roles.startswith("leader scheduler 77 ")
    assert "a-standby scheduler – " in roles
    assert "reaper-1 reaper – " in roles


def test_jobs_that_are_only_queued_miss_their_executor_too(pages: Services) -> None:
    now = pages.repository.clock.now()
    pages.repository.nodes.report(Node("e", "executor", now, ("served",)), now=now)
    for tenant, job_type in (("a", "mail"), ("b", "secret"), ("a", "served")):
        pend(pages, tenant, job_type, late=60, status="queued")
    pend(pages, "a", "held", late=60, status="claimed")

    everything = text_of(browser_of("root").get(PATH))
    member = text_of(browser_of("vera", a="viewer").get(PATH))

    assert "Jobs of type mail are due and no executor takes them" in everything
    assert "Jobs of type secret are due" in everything
    assert "Jobs of type served" not in everything
    assert "Jobs of type held" not in everything
    assert "Jobs of type mail are due" in member
    assert "secret" not in member


def test_members_see_only_their_tenants(pages: Services) -> None:
    pend(pages, "b", "secret", late=60)
    pend(pages, "a", "mail", late=60)
    count(pages, None, "secret")
    count(pages, "b", "secret")

    shown = text_of(browser_of("vera", a="viewer").get(PATH))

    assert "Due now 1 oldest" in shown
    assert "secret" not in shown
    assert "No attempt ended in the last 1h." in shown


def test_members_are_told_where_what_is_due_could_not_all_be_looked_at(pages: Services) -> None:
    for late in range(120):
        pend(pages, "b", "mail", late=300 + 3 * late)
    for late in (3, 1):
        pend(pages, "a", "mail", late=late)

    member = text_of(browser_of("vera", a="viewer").get(PATH))
    everything = text_of(browser_of("root").get(PATH))

    assert "Due now at least 1 oldest" in member
    assert "yours that are due may be more, and older" in member
    assert "Due now at least 101 oldest" in everything
    assert "yours" not in everything


def test_what_was_due_before_it_was_submitted_is_late_since_then(pages: Services) -> None:
    pend(pages, "a", "mail", late=60)
    pages.repository.jobs._jobs.update_one({}, {"$set": {"scheduledAt": EARLIEST}})

    assert "Due now 1 oldest 1 min ago" in text_of(browser_of("root").get(PATH))


@pytest.mark.parametrize("chosen", ["1h", "24h", "7d", "nonsense"])
def test_an_empty_page_says_so_in_sentences(pages: Services, chosen: str) -> None:
    shown = text_of(browser_of("root").get(PATH, {"range": chosen}))

    assert "No attempt ended in the last" in shown
    assert "There are no dead letters." in shown
    assert "No scheduler leads" in shown


def test_names_are_text(pages: Services) -> None:
    pend(pages, SCRIPT, SCRIPT, late=5)
    count(pages, None, SCRIPT)

    answer = browser_of("root").get(PATH)

    assert SCRIPT.encode() not in answer.content
    assert f"Jobs of type {SCRIPT} are due" in text_of(answer)


def test_strangers_see_nothing(pages: Services) -> None:
    assert Client().get(PATH).status_code == 302
    assert browser_of("root").post(PATH).status_code == 405
