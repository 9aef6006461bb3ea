"""The loop of leaders and workers: what one part of it stumbles over holds up no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from pymongo.collection import Collection

from chronos_site.config import SchedulerConfig
from jobs.broker.publisher import Publisher
from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from scheduler.dispatcher import Dispatcher
from scheduler.timekeeper import Timekeeper
from tests.roles.conftest import LONG_TICK
from tests.waiting import wait_for


class Stumbling:
    """A chore with a bug."""

    def step(self, now: datetime) -> bool:
        raise TypeError("stumbled")

    def next_due(self, now: datetime) -> datetime | None:
        return None


class Lengthy:
    """A chore that goes on until an instant has passed, by the store's clock."""

    def __init__(self, until: datetime, now: Callable[[], datetime]) -> None:
        self._until = until
        self._now = now

    def step(self, now: datetime) -> bool:
        wait_for(lambda: self._now() > self._until)
        return False

    def next_due(self, now: datetime) -> datetime | None:
        return None


@pytest.fixture
def timekeeper(repo: Repository, publisher: Publisher, job_type: str) -> Iterator[Timekeeper]:
    dispatcher = Dispatcher(repo, publisher, job_types=[job_type], batch=100)
    timekeeper = Timekeeper(repo, SchedulerConfig(tick=LONG_TICK), dispatcher)
    yield timekeeper
    timekeeper.close()


def test_a_chore_that_stumbles_does_not_hold_up_the_jobs(
    repo: Repository, timekeeper: Timekeeper, insert: Callable[..., list[Job]]
) -> None:
    jobs = insert(5)
    timekeeper.begin([Stumbling()])

    with pytest.raises(TypeError, match="stumbled"):
        timekeeper.run_once(repo.clock.now())

    assert {repo.jobs.get(job.id).status for job in jobs} == {Status.QUEUED}


def test_what_comes_due_while_a_look_goes_on_does_not_wait_for_the_tick(
    repo: Repository,
    timekeeper: Timekeeper,
    insert: Callable[..., list[Job]],
    documents: Collection[dict[str, Any]],
) -> None:
    timekeeper.run_once(repo.clock.now())
    # The stream's beginning ends this sleep; only what is known to be due may end the other.
    timekeeper.wait()
    now = repo.clock.now()
    due_at = now + timedelta(milliseconds=300)
    [job] = insert(scheduled_at=now + timedelta(hours=1))
    # In a way that no change stream shows.
    documents.update_one({"_id": job.id}, {"$set": {"scheduledAt": due_at}})
    timekeeper.begin([Lengthy(due_at, repo.clock.now)])

    timekeeper.run_once(now)
    timekeeper.wait()

    assert repo.clock.now() < due_at + LONG_TICK / 4
