"""The loop of leaders and workers: what one part of it stumbles over holds up no other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from chronos_site.env import SchedulerConfig
from jobs.broker.publisher import Publisher
from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from scheduler.dispatcher import Dispatcher
from scheduler.timekeeper import Timekeeper


class Stumbling:
    """A chore with a bug."""

    def step(self, now: datetime) -> bool:
        raise TypeError("stumbled")

    def next_due(self, now: datetime) -> datetime | None:
        return None


def test_a_chore_that_stumbles_does_not_hold_up_the_jobs(
    repo: Repository, publisher: Publisher, job_type: str, insert: Callable[..., list[Job]]
) -> None:
    jobs = insert(5)
    dispatcher = Dispatcher(repo, publisher, job_types=[job_type], batch=100)
    timekeeper = Timekeeper(repo, SchedulerConfig(tick=timedelta(seconds=20)), dispatcher)
    timekeeper.begin([Stumbling()])

    with pytest.raises(TypeError, match="stumbled"):
        timekeeper.run_once(repo.clock.now())

    timekeeper.close()
    assert {repo.jobs.get(job.id).status for job in jobs} == {Status.QUEUED}
