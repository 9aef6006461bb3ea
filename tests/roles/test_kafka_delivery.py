"""Kafka deliveries: what arrives in the topic, and what becomes of what cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from chronos_site.config import BrokerConfig, DeliveryConfig, ExecutorConfig
from devstack.kafka import Kafka
from executor.calls import AttemptError
from executor.delivery.pool import delivery_pool, kafka_sender
from executor.delivery.sender import Delivered
from executor.executor import Executor
from jobs.broker.topics import ensure_topics, topics_for
from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from tests.builders import a_job
from tests.waiting import wait_for

SHORT = timedelta(seconds=5)
TIMEOUT = timedelta(seconds=12)
"""A sixth of it decides that a topic is missing."""


@pytest.fixture
def topic(broker_config: BrokerConfig) -> str:
    """A topic of the test's own."""
    name = f"orders-{uuid4().hex[:8]}"
    ensure_topics(broker_config, [name])
    return name


def kafka_job(topic: str, **fields: Any) -> Job:
    """A job that delivers there. `delivery` gives more fields of the delivery."""
    delivery = {"topic": topic} | fields.pop("delivery", {})
    return a_job(**{"job_type": "kafka", "delivery": json.dumps(delivery)} | fields)


def attempts(
    broker: BrokerConfig,
    *jobs: Job,
    between: Callable[[], None] = lambda: None,
    timeout: timedelta = TIMEOUT,
) -> list[Delivered | Exception]:
    """Make one attempt for each job, by one producer.

    Args:
        broker: where to.
        jobs: what to deliver.
        between: called before every attempt but the first.
        timeout: what is waited for Kafka.
    """

    async def run() -> list[Delivered | Exception]:
        sender = kafka_sender(DeliveryConfig(kafka_timeout=timeout), broker, name="test")
        results: list[Delivered | Exception] = []
        for job in jobs:
            if results:
                await asyncio.to_thread(between)
            try:
                results.append(await sender.deliver(job))
            except Exception as exc:  # noqa: BLE001 - what went wrong is what is asked for
                results.append(exc)
        await sender.close()
        return results

    return asyncio.run(run())


def messages(broker: BrokerConfig, topic: str, count: int) -> list[Message]:
    """The first messages of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": ",".join(broker.brokers),
            "group.id": uuid4().hex,
        }
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
    found: list[Message] = []

    def look() -> bool:
        found.extend(each for each in consumer.consume(count, timeout=0.5) if not each.error())
        return len(found) >= count

    try:
        wait_for(look)
    finally:
        consumer.close()
    return found


def failed(result: Delivered | Exception) -> AttemptError:
    assert isinstance(result, AttemptError), result
    return result


def test_a_message_arrives_with_key_headers_and_body(
    broker_config: BrokerConfig, topic: str
) -> None:
    plain = kafka_job(topic, payload='{"id": "o-1", "name": "Grüße"}')
    full = kafka_job(
        topic,
        payload='{"id": "o-2", "lines": [1, 2]}',
        attempts=1,
        delivery={
            "key": "{{{ payload.id }}}",
            "headers": {"source": "shop"},
            "body": '{"order":{{ payload.lines }}}',
        },
    )

    results = attempts(broker_config, plain, full)

    by_key = {message.key(): message for message in messages(broker_config, topic, 2)}
    assert by_key[None].value() == b'{"id": "o-1", "name": "Gr\xc3\xbc\xc3\x9fe"}'
    assert by_key[None].headers() == [
        ("chronos-job-id", str(plain.id).encode()),
        ("chronos-attempt", b"1"),
    ]
    message = by_key[b"o-2"]
    assert message.value() == b'{"order":[1,2]}'
    assert message.headers() == [
        ("source", b"shop"),
        ("chronos-job-id", str(full.id).encode()),
        ("chronos-attempt", b"2"),
    ]
    assert isinstance(results[1], Delivered)
    assert json.loads(results[1].result or "") == {
        "partition": message.partition(),
        "offset": message.offset(),
    }


def test_equal_keys_share_a_partition(broker_config: BrokerConfig, topic: str) -> None:
    jobs = [kafka_job(topic, delivery={"key": f"key-{n % 3}"}) for n in range(12)]

    attempts(broker_config, *jobs)

    found = messages(broker_config, topic, 12)
    places = {(message.key(), message.partition()) for message in found}
    assert len(places) == len({key for key, _ in places}) == 3


def test_what_can_never_arrive_is_terminal_and_says_why(
    broker_config: BrokerConfig, topic: str
) -> None:
    small = f"{topic}-small"
    admin = AdminClient({"bootstrap.servers": ",".join(broker_config.brokers)})
    made = admin.create_topics([NewTopic(small, 1, config={"max.message.bytes": "1000"})])
    made[small].result(10)
    jobs = {
        "there is no such topic": kafka_job("never-made"),
        "larger than the topic allows": kafka_job(small, payload=json.dumps({"a": "x" * 2000})),
        "payload.id, which is missing": kafka_job(topic, delivery={"key": "{{ payload.id }}"}),
        "delivery.topic must be a topic": kafka_job("no topic"),
    }

    results = attempts(broker_config, *jobs.values())

    for reason, result in zip(jobs, results, strict=True):
        assert failed(result).is_final
        assert reason in str(result)
    # Its neighbours do not suffer.
    assert isinstance(attempts(broker_config, kafka_job(small))[0], Delivered)


def test_a_broker_that_is_away_is_tried_again_and_gets_the_message_once(
    private_kafka: Callable[[], Kafka],
) -> None:
    kafka = private_kafka()
    broker = BrokerConfig((kafka.address,))
    ensure_topics(broker, ["orders"])
    kafka.stop()
    first, again = (
        kafka_job("orders", payload='{"try":1}'),
        kafka_job("orders", payload='{"try":2}'),
    )

    def start() -> None:
        kafka.start()
        kafka.wait_ready()

    away, arrived = attempts(broker, first, again, between=start, timeout=SHORT)

    assert not failed(away).is_final
    assert failed(away).error_class == "MessageUnconfirmed"
    assert isinstance(arrived, Delivered)
    later = kafka_job("orders", payload='{"try":3}')
    attempts(broker, later)
    # What was given up was not sent behind the job's back.
    bodies = {message.value() for message in messages(broker, "orders", 2)}
    assert bodies == {b'{"try":2}', b'{"try":3}'}


@pytest.fixture
def executor(repo: Repository, broker_config: BrokerConfig) -> Iterator[Executor]:
    """An executor of Kafka deliveries."""
    ensure_topics(broker_config, topics_for(["kafka"]))
    delivery = DeliveryConfig(kafka_timeout=TIMEOUT)
    pool = delivery_pool(["kafka"], delivery, broker_config, name="e", user_agent="Chronos")
    config = ExecutorConfig(drain_timeout=timedelta(seconds=1))
    executor = Executor("kafka-couriers", config, broker_config, repo, pool)
    yield executor
    executor.close()


def test_jobs_are_delivered_by_an_executor(
    executor: Executor,
    broker_config: BrokerConfig,
    topic: str,
    queue: Callable[..., list[Job]],
    wait_until_all: Callable[..., list[Job]],
) -> None:
    delivery = json.dumps({"topic": topic})

    jobs = queue(100, job_type="kafka", delivery=delivery)
    [lost] = queue(job_type="kafka", delivery=json.dumps({"topic": "never-made"}))

    done = wait_until_all(jobs, Status.COMPLETED)
    [dead] = wait_until_all([lost], Status.DLQ)
    sent = {
        dict(each.headers() or [])["chronos-job-id"].decode()
        for each in messages(broker_config, topic, 100)
    }
    assert sent == {str(job.id) for job in done}
    assert dead.last_error == "topic never-made: there is no such topic"
    assert dead.attempts == 1
