"""Kafka's side: topics are made once, absent ones are named, messages arrive or are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import uuid4

import pytest
from prometheus_client import REGISTRY

from chronos_site.config import BrokerConfig
from devstack.kafka import Kafka
from jobs.broker.publisher import Publisher
from jobs.broker.subscription import Subscription
from jobs.broker.topics import ensure_topics, ping, require_topics, topics_for
from jobs.errors import BrokerUnavailable, NotProvisioned
from jobs.messages import DLQ_TOPIC, TRIGGERS_TOPIC, Message, dispatch_topic
from tests.waiting import wait_for


@pytest.fixture
def nobody(broker_config: BrokerConfig) -> BrokerConfig:
    """An address at which nobody listens."""
    return replace(broker_config, brokers=("127.0.0.1:1",))


def counted() -> float:
    return REGISTRY.get_sample_value("broker_errors_total") or 0


@pytest.fixture
def subscription(broker_config: BrokerConfig, job_type: str) -> Iterator[Subscription]:
    subscription = Subscription(broker_config, job_type, "test")
    yield subscription
    subscription.close()


def test_topics_are_created_once(broker_config: BrokerConfig) -> None:
    job_type = f"test-{uuid4().hex}"
    topics = topics_for([job_type])
    assert topics == [DLQ_TOPIC, TRIGGERS_TOPIC, dispatch_topic(job_type)]

    assert dispatch_topic(job_type) in ensure_topics(broker_config, topics)
    assert ensure_topics(broker_config, topics) == []

    require_topics(broker_config, [job_type])


def test_topics_that_were_created_are_seen_by_whoever_starts_then(
    broker_config: BrokerConfig,
) -> None:
    """A broker learns of a new topic a moment after the controller has it."""
    for _ in range(20):
        job_type = f"test-{uuid4().hex}"
        ensure_topics(broker_config, topics_for([job_type]))

        require_topics(broker_config, [job_type])


def test_absent_topics_are_named_with_the_way_out(
    broker_config: BrokerConfig, job_type: str
) -> None:
    with pytest.raises(NotProvisioned) as refused:
        require_topics(broker_config, [job_type, "never-made"])

    assert str(refused.value) == (
        "Kafka lacks the topics jobs.dispatch.never-made. Run: python manage.py migrate"
    )


def test_a_broker_that_is_away_is_told_soon(nobody: BrokerConfig) -> None:
    begun, before = time.monotonic(), counted()

    with pytest.raises(
        BrokerUnavailable, match=r"127\.0\.0\.1:1\. Start it, .* check KAFKA_BROKERS"
    ):
        ping(nobody)

    assert time.monotonic() - begun < 4
    assert counted() > before


def test_a_consumer_whose_brokers_are_all_away_counts_it(nobody: BrokerConfig) -> None:
    before = counted()
    subscription = Subscription(nobody, "noop", "test")

    wait_for(lambda: subscription.poll(0.1) or counted() > before)

    subscription.close()


def test_a_broker_that_is_there_answers(broker_config: BrokerConfig) -> None:
    ping(broker_config)


def test_messages_that_arrived_and_those_that_did_not_are_told_apart(
    publisher: Publisher, subscription: Subscription, job_type: str
) -> None:
    topic = dispatch_topic(job_type)
    too_large = Message(topic, b"x" * 2_000_000)
    before = counted()

    failed = publisher.publish([Message(topic, b"1"), too_large, Message(topic, b"2")])

    assert failed == [1]
    assert counted() == before + 1
    arrived = {wait_for(lambda: subscription.poll(0.1)).value() for _ in range(2)}  # type: ignore[union-attr]
    assert arrived == {b"1", b"2"}


def test_messages_that_kafka_never_takes_are_told_once_for_their_topic(
    publisher: Publisher, job_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = dispatch_topic(job_type)
    large, small = Message(topic, bytes(2_000_000)), Message(topic, b"{}")

    assert publisher.publish([large, small, large, large]) == [0, 2, 3]

    assert [each.count for each in caplog.records if each.name == "jobs.broker.publisher"] == [3]  # type: ignore[attr-defined]


def test_messages_come_again_until_they_are_done(
    broker_config: BrokerConfig, publisher: Publisher, job_type: str
) -> None:
    topic = dispatch_topic(job_type)
    publisher.publish([Message(topic, str(number).encode(), b"one key") for number in range(3)])

    def first_message(*, done: bool) -> bytes | None:
        subscription = Subscription(broker_config, job_type, "test")
        message = wait_for(lambda: subscription.poll(0.1))
        assert message is not None
        if done:
            subscription.done([message])
        subscription.close()
        return message.value()

    assert first_message(done=False) == b"0"
    assert first_message(done=True) == b"0"
    assert first_message(done=True) == b"1"


def test_leaving_a_group_does_not_wait_for_a_broker_that_is_away(
    private_kafka: Callable[[], Kafka], broker_config: BrokerConfig, job_type: str
) -> None:
    kafka = private_kafka()
    config = replace(broker_config, brokers=(kafka.address,))
    ensure_topics(config, topics_for([job_type]))
    subscription, publisher = Subscription(config, job_type, "test"), Publisher(config, "test")
    publisher.publish([Message(dispatch_topic(job_type), b"1")])
    message = wait_for(lambda: subscription.poll(0.1))
    assert message is not None
    subscription.done([message])
    kafka.kill()

    begun = time.monotonic()
    subscription.close()

    assert time.monotonic() - begun < 6
    publisher.close()
