"""A real Prometheus sees the only scheduler die, says so, and says that it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.monitoring import Watcher
from tests.processes import RoleProcess
from tests.waiting import wait_for

Start = Callable[..., RoleProcess]


@pytest.fixture
def watcher(tmp_path: Path) -> Iterator[Watcher]:
    watcher = Watcher(tmp_path / "prometheus")
    watcher.start()
    watcher.wait_ready()
    yield watcher
    watcher.kill()


def firing(watcher: Watcher) -> set[str]:
    """The alerts that fire, but for the one that always does."""
    names = {
        alert["labels"]["alertname"] for alert in watcher.alerts() if alert["state"] == "firing"
    }
    return names - {"Watchdog"}


def test_the_death_of_the_only_scheduler_is_told_and_so_is_its_end(
    start: Start, watcher: Watcher
) -> None:
    others = [start("runapi"), start("runreaper"), start("runexecutor", "--type", "noop")]
    scheduler = start("runscheduler")
    watcher.scrape([*others, scheduler])
    for role in [*others, scheduler]:
        role.wait_ready()
    wait_for(lambda: watcher.query("scheduler_is_leader == 1"))
    wait_for(lambda: not firing(watcher), show=lambda: firing(watcher))

    scheduler.kill()
    # Nobody is told more than that, but for the process itself: and for a moment, on a machine too
    # busy to be scraped, of others.
    told, expected = {"NoLeader"}, {"NoLeader", "TargetDown"}
    wait_for(lambda: told <= firing(watcher) <= expected, show=watcher.alerts)
    [alert] = [each for each in watcher.alerts() if each["labels"]["alertname"] == "NoLeader"]

    assert watcher.query('ALERTS{alertname="Watchdog", alertstate="firing"}')
    assert alert["labels"]["severity"] == "page"
    assert alert["annotations"]["runbook_url"].endswith("#noleader")

    successor = start("runscheduler")
    watcher.scrape([*others, successor])
    wait_for(lambda: not firing(watcher), show=watcher.alerts)
