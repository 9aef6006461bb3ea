"""What an autoscaler sees: consumer lag wakes the executors of a type, and says when all is done.

The lag is worked out as KEDA's Kafka scaler does it, with `offsetResetPolicy` `earliest`:
https://keda.sh/docs/2.20/scalers/apache-kafka/
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from prometheus_client import REGISTRY

from chronos_site.config import BrokerConfig
from executor.executor import Executor
from jobs.broker.client import common_settings
from jobs.broker.publisher import Publisher
from jobs.lifecycle import Job, Status
from jobs.messages import Message, consumer_group, dispatch_topic
from jobs.registry import Context
from jobs.repository import Repository
from scheduler.credit import FLOOR
from scheduler.dispatcher import Dispatcher
from tests.waiting import wait_for

StartExecutor = Callable[..., Executor]
Insert = Callable[..., list[Job]]
DispatchUntilDone = Callable[[list[Job]], None]
BACKLOG = 3 * FLOOR


class Lag:
    """The consumer lag of a job type's group on its topic."""

    def __init__(self, broker: BrokerConfig, job_type: str) -> None:
        self.admin = AdminClient(common_settings(broker, "test"))
        self._group = consumer_group(job_type)
        self._topic = dispatch_topic(job_type)
        self.partitions = [
            TopicPartition(self._topic, number) for number in range(broker.partitions)
        ]

    def newest(self) -> dict[int, int]:
        """The end of each partition."""
        asked = {partition: OffsetSpec.latest() for partition in self.partitions}
        found = self.admin.list_offsets(asked).items()
        return {partition.partition: future.result().offset for partition, future in found}

    def committed(self) -> dict[int, int]:
        """What the group has done with, of the partitions that it has told about."""
        asked = ConsumerGroupTopicPartitions(self._group, self.partitions)
        [future] = self.admin.list_consumer_group_offsets([asked]).values()
        told = future.result().topic_partitions or []
        return {each.partition: each.offset for each in told if each.offset != OFFSET_INVALID}

    @property
    def is_told(self) -> bool:
        """Whether Kafka knows its groups: a broker that has just started reads them first."""
        with suppress(KafkaException):
            self.committed()
            return True
        return False

    def total(self) -> int:
        """Messages that the group is behind."""
        committed = self.committed()
        return sum(end - committed.get(partition, 0) for partition, end in self.newest().items())


@pytest.fixture
def lag(broker_config: BrokerConfig, job_type: str) -> Lag:
    lag = Lag(broker_config, job_type)
    wait_for(lambda: lag.is_told)
    return lag


@pytest.fixture
def dispatcher(repo: Repository, publisher: Publisher, job_type: str) -> Dispatcher:
    return Dispatcher(repo, publisher, job_types=[job_type], batch=1000)


@pytest.fixture
def dispatch_until_done(
    dispatcher: Dispatcher,
    repo: Repository,
    count_by_status: Callable[[list[Job]], Counter[str]],
) -> DispatchUntilDone:
    """Does the scheduler's part until all of some jobs are completed."""

    def dispatch(jobs: list[Job]) -> None:
        def are_done() -> bool:
            dispatcher.step(repo.clock.now())
            return count_by_status(jobs) == {Status.COMPLETED: len(jobs)}

        wait_for(are_done, show=lambda: count_by_status(jobs))

    return dispatch


def busy(job_type: str) -> float | None:
    """What `/metrics` says about the jobs that run."""
    labels = {"pool": "handlers", "job_type": job_type}
    return REGISTRY.get_sample_value("executor_busy", labels)


def test_a_type_that_nobody_serves_has_the_floor_as_lag_and_whoever_comes_works_off_all(
    lag: Lag,
    dispatcher: Dispatcher,
    repo: Repository,
    insert: Insert,
    start_executor: StartExecutor,
    dispatch_until_done: DispatchUntilDone,
) -> None:
    assert lag.total() == 0
    jobs = insert(BACKLOG)
    for _ in range(3):
        dispatcher.step(repo.clock.now())

    assert lag.total() == FLOOR

    start_executor(lambda context: None)
    dispatch_until_done(jobs)

    assert {repo.jobs.get(job.id).attempts for job in jobs} == {0}
    wait_for(lambda: lag.total() == 0)


def test_a_backlog_of_any_size_is_no_lag_once_it_is_served(
    lag: Lag,
    dispatcher: Dispatcher,
    repo: Repository,
    insert: Insert,
    start_executor: StartExecutor,
    job_type: str,
) -> None:
    let_go = threading.Event()

    def patient(context: Context) -> None:
        let_go.wait()

    try:
        start_executor(patient, concurrency=4)
        long_ago = repo.clock.now() - timedelta(minutes=1)
        wait_for(lambda: repo.nodes.live(role="executor", seen_since=long_ago))
        insert(BACKLOG)
        wait_for(lambda: dispatcher.step(repo.clock.now()).is_full)
        wait_for(lambda: busy(job_type) == 4)

        # Slots, and as many again that wait for one.
        assert lag.total() <= 8
    finally:
        let_go.set()


def test_executors_that_leave_hand_back_what_they_run_and_the_next_one_loses_no_attempt(
    lag: Lag,
    dispatcher: Dispatcher,
    repo: Repository,
    insert: Insert,
    start_executor: StartExecutor,
    dispatch_until_done: DispatchUntilDone,
) -> None:
    begun = threading.Event()

    def stubborn(context: Context) -> None:
        begun.set()
        context.cancelled.wait()

    jobs = insert(8)
    dispatcher.step(repo.clock.now())
    first = start_executor(stubborn, concurrency=2, drain_timeout=timedelta(milliseconds=100))
    assert begun.wait(30)

    # As Kubernetes does to the last one.
    first.close()
    wait_for(lambda: dispatcher.step(repo.clock.now()).count)
    assert lag.total() > 0
    start_executor(lambda context: None)
    dispatch_until_done(jobs)

    assert {repo.jobs.get(job.id).attempts for job in jobs} == {0}
    wait_for(lambda: lag.total() == 0)


def test_a_group_whose_offsets_are_forgotten_has_no_lag_once_somebody_has_looked(
    lag: Lag, publisher: Publisher, start_executor: StartExecutor, job_type: str
) -> None:
    """Kafka forgets what a group that is empty for a week has done with, and old messages too."""
    junk = Message(dispatch_topic(job_type), b"junk")
    assert publisher.publish([junk] * 40) == []
    ends = lag.newest()
    gone = [TopicPartition(dispatch_topic(job_type), *each) for each in ends.items()]
    for future in lag.admin.delete_records(gone).values():
        future.result()
    assert lag.total() == 40

    start_executor(lambda context: None)

    wait_for(lambda: lag.total() == 0)
    assert lag.committed() == ends
