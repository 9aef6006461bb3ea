"""Publishing messages, and knowing which ones arrived."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from jobs.broker.client import common_settings, partitions_of
from jobs.logs import events
from jobs.messages import Message
from jobs.metrics import BROKER_ERRORS

if TYPE_CHECKING:
    from chronos_site.config import BrokerConfig

logger = logging.getLogger(__name__)

DELIVERY_TIMEOUT: Final = timedelta(seconds=5)
# librdkafka's "unassigned": the key decides.
_ANY_PARTITION: Final = -1


class Publisher:
    """Sends batches. Not for use by several threads at once."""

    def __init__(self, config: BrokerConfig, client_id: str) -> None:
        self._producer = Producer(
            {
                **common_settings(config, client_id),
                # A lost wake-up costs QUEUED_TIMEOUT, never a job; a dead letter that is lost with
                # its broker's disk is still in MongoDB.
                "acks": 1,
                "linger.ms": 0,
                "message.timeout.ms": int(DELIVERY_TIMEOUT.total_seconds() * 1000),
                # A topic that is missing is missing: `migrate` makes it before anybody publishes.
                "topic.metadata.propagation.max.ms": 1000,
                "queue.buffering.max.messages": 100_000,
            }
        )

    def publish(self, messages: Sequence[Message]) -> list[int]:
        """Send messages and wait until each has arrived or failed, 5 s at the most.

        Returns:
            The positions of those that are not known to have arrived; empty when all did.
        """
        unconfirmed = set(range(len(messages)))
        refused: dict[str, list[KafkaException]] = {}

        def report(position: int, error: KafkaError | None, _: KafkaMessage) -> None:
            if error is None:
                unconfirmed.discard(position)

        for position, message in enumerate(messages):
            try:
                self._producer.produce(
                    message.topic,
                    message.value,
                    message.key,
                    _ANY_PARTITION if message.partition is None else message.partition,
                    on_delivery=partial(report, position),
                )
            except BufferError:
                # The queue is full of messages for a broker that is away.
                break
            except KafkaException as exc:
                # Too large, say: that is no obstacle for the others.
                refused.setdefault(message.topic, []).append(exc)
        for topic, errors in refused.items():
            logger.warning(
                "Kafka refuses %d messages for %s: %s",
                len(errors),
                topic,
                errors[-1],
                extra=events.KAFKA_REFUSES(topic=topic, count=len(errors), error=errors[-1]),
            )
        self._producer.flush(DELIVERY_TIMEOUT.total_seconds())
        if unconfirmed:
            BROKER_ERRORS.inc()
        return sorted(unconfirmed)

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has.

        Raises:
            BrokerUnavailable: Kafka did not answer in time, or has no such topic.
        """
        return partitions_of(self._producer, topic)

    def close(self) -> None:
        """Give up what is still unsent."""
        self._producer.purge()
        self._producer.flush(1)
