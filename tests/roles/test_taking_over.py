"""Whoever takes over from a process that died sends again what that one may not have sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from chronos_site.config import SchedulerConfig
from executor.executor import Executor
from jobs.broker.publisher import Publisher
from jobs.lifecycle import Job, Status, shard_of
from jobs.repository import Repository
from scheduler.dispatcher import Dispatcher
from scheduler.scheduler import Scheduler
from scheduler.timekeeper import Timekeeper
from tests.roles.conftest import LONG_TICK, RunningWorker

Insert = Callable[..., list[Job]]
LONG_AGO = timedelta(seconds=3)
# So that what was done just now is no older when it is looked at, however slow the machine.
JUST_NOW = timedelta(seconds=-30)


@pytest.fixture
def leave_behind(repo: Repository, insert: Insert) -> Callable[..., list[Job]]:
    """Stores jobs that somebody moved to queued some time ago, without sending their messages."""

    def leave(count: int, ago: timedelta = LONG_AGO) -> list[Job]:
        jobs = insert(count)
        ids = [job.id for job in jobs]
        moved = repo.dispatch.queue(ids, claim_id="dead", now=repo.clock.now() - ago)
        assert moved == set(ids)
        return jobs

    return leave


@pytest.fixture
def make_timekeeper(repo: Repository, publisher: Publisher, job_type: str) -> Any:
    made: list[Timekeeper] = []

    def make() -> Timekeeper:
        dispatcher = Dispatcher(repo, publisher, job_types=[job_type], batch=1000)
        made.append(Timekeeper(repo, SchedulerConfig(tick=LONG_TICK), dispatcher))
        return made[-1]

    yield make
    for timekeeper in made:
        timekeeper.close()


def test_a_new_leader_sends_again_what_the_last_one_left(
    start_scheduler: Callable[..., Scheduler],
    start_executor: Callable[..., Executor],
    leave_behind: Callable[..., list[Job]],
    wait_until_all: Callable[..., list[Job]],
) -> None:
    jobs = leave_behind(50)
    start_executor(lambda context: None)

    # There is no reaper.
    start_scheduler(tick=LONG_TICK)

    assert all(job.attempts == 0 for job in wait_until_all(jobs, Status.COMPLETED))


def test_a_fan_out_worker_sends_again_what_the_last_one_left(
    start_worker: Callable[..., RunningWorker],
    start_executor: Callable[..., Executor],
    leave_behind: Callable[..., list[Job]],
    wait_until_all: Callable[..., list[Job]],
) -> None:
    jobs = leave_behind(50)
    start_executor(lambda context: None)

    start_worker()

    assert all(job.attempts == 0 for job in wait_until_all(jobs, Status.COMPLETED))


def test_what_was_sent_just_now_is_left_alone(
    make_timekeeper: Callable[[], Timekeeper],
    leave_behind: Callable[..., list[Job]],
    repo: Repository,
) -> None:
    (job,) = leave_behind(1, JUST_NOW)
    timekeeper = make_timekeeper()

    timekeeper.take_over(None)
    timekeeper.run_once(repo.clock.now())

    assert repo.jobs.get(job.id).claim_id == "dead"


def test_only_what_was_taken_over_is_sent_again(
    make_timekeeper: Callable[[], Timekeeper],
    leave_behind: Callable[..., list[Job]],
    repo: Repository,
) -> None:
    jobs = leave_behind(20)
    taken = {shard_of(job.id) for job in jobs[:10]}
    timekeeper = make_timekeeper()

    timekeeper.take_over(taken)
    timekeeper.run_once(repo.clock.now())

    for job in jobs:
        is_ours = shard_of(job.id) in taken
        assert (repo.jobs.get(job.id).claim_id != "dead") == is_ours


def test_without_a_take_over_nothing_is_sent_again(
    make_timekeeper: Callable[[], Timekeeper],
    leave_behind: Callable[..., list[Job]],
    repo: Repository,
) -> None:
    (job,) = leave_behind(1)

    make_timekeeper().run_once(repo.clock.now())

    assert repo.jobs.get(job.id).claim_id == "dead"
