"""Scheduler, executors and reaper in this process, on the run's real servers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection

from chronos_site.config import (
    BrokerConfig,
    Config,
    ExecutorConfig,
    ReaperConfig,
    SchedulerConfig,
    StoreConfig,
)
from executor.executor import Executor
from executor.pool import handler_pool
from jobs.broker.publisher import Publisher
from jobs.broker.topics import ensure_topics, topics_for
from jobs.lifecycle import Job, Status
from jobs.loop import run
from jobs.messages import dispatch_message
from jobs.registry import Handler, HandlerFunction
from jobs.repository import Repository
from jobs.repository.dispatch import DueJob
from reaper.reaper import Reaper
from scheduler.fanout import FanoutWorker
from scheduler.leadership import elector_for
from scheduler.scheduler import Scheduler
from tests.builders import a_job
from tests.targets import Behave, Target
from tests.waiting import wait_for

Documents = Collection[dict[str, Any]]

# No test waits for it: what is due must be noticed without, and so in a quarter of it.
LONG_TICK: Final = timedelta(minutes=2)


@pytest.fixture
def job_type(broker_config: BrokerConfig) -> str:
    """A job type of the test's own, with its topic."""
    name = f"test-{uuid4().hex[:12]}"
    ensure_topics(broker_config, topics_for([name]))
    return name


@pytest.fixture
def publisher(broker_config: BrokerConfig) -> Iterator[Publisher]:
    publisher = Publisher(broker_config, "test")
    yield publisher
    publisher.close()


@pytest.fixture
def insert(repo: Repository, job_type: str) -> Callable[..., list[Job]]:
    """Stores `count` due jobs of the test's type; keywords are fields of `Job`."""

    def insert(count: int = 1, **fields: Any) -> list[Job]:
        jobs = [a_job(**{"job_type": job_type} | fields) for _ in range(count)]
        assert all(repo.jobs.insert(jobs))
        return jobs

    return insert


@pytest.fixture
def queue(
    repo: Repository, publisher: Publisher, insert: Callable[..., list[Job]]
) -> Callable[..., list[Job]]:
    """Stores jobs as `insert` does, and does a scheduler's part: moves them on and wakes."""

    def queue(count: int = 1, **fields: Any) -> list[Job]:
        jobs = insert(count, **fields)
        dispatch(repo, publisher, jobs)
        return jobs

    return queue


def dispatch(repo: Repository, publisher: Publisher, jobs: Iterable[Job]) -> None:
    """Move pending jobs to queued and wake their executors, whatever these can take."""
    due = [DueJob(job.id, job.job_type, job.priority, job.scheduled_at) for job in jobs]
    ids = [job.id for job in due]
    assert repo.dispatch.queue(ids, claim_id=uuid4().hex, now=repo.clock.now()) == set(ids)
    assert publisher.publish([dispatch_message(job) for job in due]) == []


@pytest.fixture
def start_executor(
    repo: Repository, broker_config: BrokerConfig, job_type: str
) -> Iterator[Callable[..., Executor]]:
    """Starts an executor: `start_executor(handler)` serves the test's type with this function.

    Several types are given as a mapping; keywords are fields of `ExecutorConfig`.
    """
    started: list[Executor] = []

    def start(
        handlers: HandlerFunction | Mapping[str, HandlerFunction],
        *,
        in_process: bool = False,
        **settings: Any,
    ) -> Executor:
        functions = handlers if isinstance(handlers, Mapping) else {job_type: handlers}
        known = {name: Handler(name, each, in_process) for name, each in functions.items()}
        name = f"executor-{len(started)}"
        # Short enough for a test that leaves a handler blocked.
        config = ExecutorConfig(**{"drain_timeout": timedelta(seconds=1)} | settings)
        pool = handler_pool(known, config.concurrency)
        executor = Executor(name, config, broker_config, repo, pool)
        started.append(executor)
        return executor

    yield start
    for executor in started:
        executor.close()


@pytest.fixture
def start_scheduler(
    chronos_config: Config, repo: Repository, job_type: str
) -> Iterator[Callable[..., Scheduler]]:
    """Starts a scheduler that campaigns for the lead; keywords are fields of `SchedulerConfig`."""
    stop = threading.Event()
    threads: list[threading.Thread] = []
    publishers: list[Publisher] = []

    def start(**settings: Any) -> Scheduler:
        name = f"scheduler-{len(threads)}"
        publishers.append(Publisher(chronos_config.broker, name))
        scheduler = Scheduler(
            name,
            SchedulerConfig(**settings),
            repository=repo,
            publisher=publishers[-1],
            job_types=[job_type],
        )
        elector = elector_for(chronos_config.election, name)
        threads.append(threading.Thread(target=scheduler.run, args=(elector, stop)))
        threads[-1].start()
        return scheduler

    yield start
    stop.set()
    for thread in threads:
        thread.join()
    for publisher in publishers:
        publisher.close()


@dataclass
class RunningWorker:
    """A fan-out worker in threads of this process."""

    worker: FanoutWorker
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self.worker.run, args=(self._stop,))
        self._thread.start()

    @property
    def shards(self) -> frozenset[int]:
        return self.worker.shards or frozenset()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def start_worker(
    broker_config: BrokerConfig, publisher: Publisher, repo: Repository, job_type: str
) -> Iterator[Callable[..., RunningWorker]]:
    """Starts a fan-out worker; further keywords are fields of `SchedulerConfig`."""
    started: list[RunningWorker] = []
    publishers: list[Publisher] = []

    def start(
        repository: Repository = repo,
        brokers: tuple[str, ...] = broker_config.brokers,
        session_timeout: timedelta = timedelta(seconds=2),
        **settings: Any,
    ) -> RunningWorker:
        name = f"fanout-{len(started)}"
        own_broker = replace(broker_config, brokers=brokers, session_timeout=session_timeout)
        publishers.append(Publisher(own_broker, name))
        worker = FanoutWorker(
            name,
            SchedulerConfig(**{"tick": LONG_TICK} | settings),
            own_broker,
            repository=repository,
            publisher=publishers[-1],
            job_types=[job_type],
        )
        started.append(RunningWorker(worker))
        return started[-1]

    yield start
    for running in started:
        running.stop()
    for each in publishers:
        each.close()


@pytest.fixture
def make_reaper(repo: Repository, publisher: Publisher) -> Iterator[Callable[..., Reaper]]:
    """Makes a reaper; keywords are fields of `ReaperConfig`."""
    never = threading.Event()

    def make(stop: threading.Event = never, **settings: Any) -> Reaper:
        config = replace(ReaperConfig(), **settings)
        return Reaper(config, repository=repo, publisher=publisher, stop=stop)

    yield make
    never.set()


@pytest.fixture
def start_reaper(repo: Repository, broker_config: BrokerConfig) -> Iterator[Callable[..., Reaper]]:
    """Starts a reaper that sweeps all the time; keywords are fields of `ReaperConfig`."""
    stop = threading.Event()
    threads: list[threading.Thread] = []
    publisher = Publisher(broker_config, "reaper")

    def start(**settings: Any) -> Reaper:
        config = ReaperConfig(**{"interval": timedelta(milliseconds=100)} | settings)
        reaper = Reaper(config, repository=repo, publisher=publisher, stop=stop)
        threads.append(
            threading.Thread(
                target=run, args=(reaper,), kwargs={"clock": repo.clock.now, "stop": stop}
            )
        )
        threads[-1].start()
        return reaper

    yield start
    stop.set()
    for thread in threads:
        thread.join()
    publisher.close()


@pytest.fixture
def documents(store_config: StoreConfig) -> Iterator[Documents]:
    """The collection that `repo` keeps its jobs in, for edits by hand."""
    client: MongoClient[dict[str, Any]] = MongoClient(store_config.uri, tz_aware=True)
    with client:
        yield client[store_config.database]["jobs"]


@pytest.fixture
def count_by_status(documents: Documents) -> Callable[[Iterable[Job]], Counter[str]]:
    """How many of some jobs are where."""

    def count(jobs: Iterable[Job]) -> Counter[str]:
        which = {"_id": {"$in": [job.id for job in jobs]}}
        return Counter(job["status"] for job in documents.find(which, {"status": 1}))

    return count


@pytest.fixture
def wait_until_all(
    repo: Repository, count_by_status: Callable[[Iterable[Job]], Counter[str]]
) -> Callable[..., list[Job]]:
    """Waits until all of some jobs have a status; returns them as they are then."""

    def wait(jobs: Iterable[Job], status: Status, **patience: Any) -> list[Job]:
        jobs = list(jobs)
        wait_for(
            lambda: count_by_status(jobs).keys() == {status},
            show=lambda: count_by_status(jobs),
            **patience,
        )
        return [repo.jobs.get(job.id) for job in jobs]

    return wait


@pytest.fixture
def start_target() -> Iterator[Callable[[Behave], Target]]:
    """Starts an HTTP server for deliveries that behaves so."""
    started: list[Target] = []

    def start(behave: Behave) -> Target:
        started.append(Target(behave))
        return started[-1]

    yield start
    for target in started:
        target.close()
