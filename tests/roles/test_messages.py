"""Kafka is only a wake-up: lost, doubled, misplaced and meaningless messages harm no job."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue

from prometheus_client import REGISTRY

from chronos_site.config import BrokerConfig
from executor.executor import Executor
from jobs.broker.publisher import Publisher
from jobs.broker.topics import ensure_topics, topics_for
from jobs.lifecycle import Job, Status
from jobs.messages import Message, dispatch_message, dispatch_topic
from jobs.repository import Repository
from jobs.repository.dispatch import DueJob
from tests.waiting import wait_for

StartExecutor = Callable[..., Executor]
Insert = Callable[..., list[Job]]
WaitUntilAll = Callable[..., list[Job]]

JUNK = [
    b"",
    b"\xff\xfe",
    b"null",
    b"[]",
    b"{}",
    b'{"jobId": 17}',
    b'{"jobId": "no id"}',
    b'{"jobId": "AAAAAAAAAAAAAAAAAAAAAAAA"}',
    b"[" * 100_000,
    b"1" * 10_000,
]


def wake_up(job: Job) -> Message:
    return dispatch_message(DueJob(job.id, job.job_type, job.priority, job.scheduled_at))


def dropped(reason: str) -> float:
    return REGISTRY.get_sample_value("executor_dropped_messages_total", {"reason": reason}) or 0


def test_junk_and_duplicates_run_each_job_once(
    start_executor: StartExecutor,
    publisher: Publisher,
    job_type: str,
    queue: Insert,
    wait_until_all: WaitUntilAll,
) -> None:
    ran: SimpleQueue[str] = SimpleQueue()
    topic = dispatch_topic(job_type)
    before = {reason: dropped(reason) for reason in ("junk", "not_queued")}
    junk = [Message(topic, value) for value in JUNK]
    unknown = Message(topic, b'{"jobId": "' + b"0" * 24 + b'"}')
    assert publisher.publish(junk) == []
    jobs = queue(100)
    doubles = [wake_up(job) for job in jobs]
    assert publisher.publish([*doubles, *junk, unknown, *doubles]) == []

    start_executor(lambda context: ran.put(context.job_id), concurrency=4)
    wait_until_all(jobs, Status.COMPLETED)
    assert publisher.publish([*doubles, *junk]) == []
    wait_until_all(queue(1), Status.COMPLETED)

    # More, where Kafka delivers some of them twice.
    wait_for(lambda: dropped("junk") - before["junk"] >= 3 * len(junk))
    wait_for(lambda: dropped("not_queued") - before["not_queued"] >= 3 * len(doubles) + 1)
    assert ran.qsize() == 101
    assert len({ran.get() for _ in range(101)}) == 101


def test_a_message_in_the_wrong_topic_does_no_harm(
    start_executor: StartExecutor,
    broker_config: BrokerConfig,
    repo: Repository,
    publisher: Publisher,
    job_type: str,
    queue: Insert,
    wait_until_all: WaitUntilAll,
) -> None:
    other = f"{job_type}-other"
    ensure_topics(broker_config, topics_for([other]))
    ran: SimpleQueue[str] = SimpleQueue()
    start_executor(lambda context: ran.put(context.job_type), concurrency=1)
    [stray] = queue(1, job_type=other)
    wrong = Message(dispatch_topic(job_type), wake_up(stray).value)
    assert publisher.publish([wrong]) == []

    [stray] = wait_until_all([stray], Status.PENDING)
    wait_until_all(queue(1), Status.COMPLETED)

    assert stray.attempts == 0
    assert stray.claim_id is None
    assert repo.jobs.get(stray.id).status is Status.PENDING
    assert {ran.get() for _ in range(ran.qsize())} == {job_type}
