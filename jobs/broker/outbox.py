"""Sending single messages to any topic, and telling what became of each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from jobs.broker.client import common_settings
from jobs.logs import events
from jobs.metrics import BROKER_ERRORS

if TYPE_CHECKING:
    from chronos_site.config import BrokerConfig

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
# The broker and the topic have limits of their own, and theirs should decide.
_LARGEST_BYTES = 64 << 20
_REASONS: Final[Mapping[int, str]] = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "there is no such topic",
    KafkaError._UNKNOWN_TOPIC: "there is no such topic",
    KafkaError._UNKNOWN_PARTITION: "the topic has no such partition",
    KafkaError.TOPIC_EXCEPTION: "the topic's name is not valid",
    KafkaError.MSG_SIZE_TOO_LARGE: "the message is larger than the topic allows",
    KafkaError.RECORD_LIST_TOO_LARGE: "the message is larger than the topic allows",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "writing to the topic is not permitted",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "writing to this cluster is not permitted",
    KafkaError.INVALID_RECORD: "the broker refuses the message as invalid",
    KafkaError.POLICY_VIOLATION: "a policy of the broker refuses the message",
}
"""What no repetition mends."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a message."""

    partition: int
    offset: int
    problem: str | None = None
    """Why it did not arrive; None: it did."""
    is_final: bool = False
    """Whether it could never arrive."""


Report = Callable[[Receipt], None]


class Outbox:
    """One producer and the thread that hears its reports. `send` may be called by any thread."""

    def __init__(self, config: BrokerConfig, client_id: str, *, timeout: timedelta) -> None:
        """Start the thread.

        Args:
            config: where Kafka is.
            client_id: what its logs call this producer.
            timeout: how long a message is tried; after that it is certain not to be sent.
        """
        timeout_ms = int(timeout.total_seconds() * 1000)
        self._settings = {
            **common_settings(config, client_id),
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 2,
            "message.timeout.ms": timeout_ms,
            "message.max.bytes": _LARGEST_BYTES,
            "queue.buffering.max.kbytes": 4 * _LARGEST_BYTES >> 10,
            # A topic just made, or a broker just started: it may be known a little later.
            "topic.metadata.propagation.max.ms": timeout_ms // 6,
            # As Java's producers do, so that equal keys share a partition whoever writes them.
            "partitioner": "murmur2_random",
        }
        self._producer = Producer(self._settings)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def send(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None,
        headers: Mapping[str, bytes],
        report: Report,
    ) -> None:
        """Send a message.

        Args:
            topic: where to.
            value: what.
            key: decides about the partition; None: any.
            headers: by name.
            report: called once, by another thread or this one.
        """
        try:
            self._producer.produce(
                topic,
                value,
                key,
                headers=list(headers.items()),
                on_delivery=partial(self._report, report),
            )
        except BufferError:
            report(Receipt(-1, -1, "too many messages wait for Kafka"))
        except KafkaException as exc:
            report(_refusal(exc.args[0]))

    def close(self) -> None:
        """Give up what is still unsent, and end the thread."""
        self._producer.purge()
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(_POLL_SECONDS)
        self._producer.flush(1)

    def _report(self, report: Report, error: KafkaError | None, message: KafkaMessage) -> None:
        if error is None:
            report(Receipt(message.partition() or 0, message.offset() or 0))
            return
        report(_refusal(error))
        if error.fatal():
            # The idempotent producer has lost count of its messages, and sends nothing any more.
            extra = events.PRODUCER_RENEWED(error=error.str())
            logger.warning("Kafka: %s; starting with a new producer", error.str(), extra=extra)
            self._producer = Producer(self._settings)


def _refusal(error: KafkaError) -> Receipt:
    reason = _REASONS.get(error.code())
    if reason is None:
        BROKER_ERRORS.inc()
    return Receipt(
        -1,
        -1,
        reason or f"Kafka did not confirm the message: {error.str()}",
        is_final=reason is not None,
    )
