"""One member of a consumer group: its share of the messages of a topic."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import Message as Received

from jobs.broker.client import common_settings
from jobs.logs import events

if TYPE_CHECKING:
    from chronos_site.config import BrokerConfig

logger = logging.getLogger(__name__)

_DAY_MS = 86_400_000
_GOODBYE_SECONDS = 5.0


class Membership:
    """One member of a group.

    Offsets are kept only after `done`: until then, a crash leaves the messages to another member.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        topic: str,
        group: str,
        client_id: str,
        settings: Mapping[str, Any] | None = None,
        **callbacks: Callable[[Consumer, list[TopicPartition]], None],
    ) -> None:
        """Join.

        Args:
            config: where Kafka is, and the silence after which the group replaces a member.
            topic: what to read.
            group: whose members share it.
            client_id: for Kafka's own logs.
            settings: librdkafka's, beside those that all members have.
            callbacks: `on_assign` and `on_revoke` of `Consumer.subscribe`.
        """
        session_ms = int(config.session_timeout.total_seconds() * 1000)
        self._consumer = Consumer(
            {
                **common_settings(config, client_id),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.offset.store": False,
                "auto.commit.interval.ms": 500,
                "session.timeout.ms": session_ms,
                "heartbeat.interval.ms": max(session_ms // 3, 100),
                # An executor without room does not poll. Its leases, not Kafka, tell whether it
                # lives; librdkafka's own thread keeps it in the group.
                "max.poll.interval.ms": _DAY_MS,
                "partition.assignment.strategy": "cooperative-sticky",
                "fetch.error.backoff.ms": 100,
                **(settings or {}),
            }
        )
        self._consumer.subscribe([topic], **callbacks)

    def poll(self, timeout_seconds: float) -> Received | None:
        """The next message, waiting for one; None when none came."""
        message = self._consumer.poll(timeout_seconds)
        return None if message is None or message.error() else message

    def more(self, limit: int) -> list[Received]:
        """The messages that are already here, without waiting."""
        if limit <= 0:
            return []
        return [m for m in self._consumer.consume(limit, timeout=0) if not m.error()]

    def done(self, messages: Sequence[Received]) -> None:
        """Never deliver these again."""
        offsets: dict[tuple[str, int], int] = {}
        for message in messages:
            place = (message.topic() or "", message.partition() or 0)
            offsets[place] = max(offsets.get(place, 0), (message.offset() or 0) + 1)
        for (topic, partition), offset in offsets.items():
            try:
                self._consumer.store_offsets(offsets=[TopicPartition(topic, partition, offset)])
            except KafkaException:
                # The partition went to another member, which will see the message again and find
                # its work done.
                continue

    def close(self) -> None:
        """Commit and leave the group; 5 s at the most.

        While Kafka is away librdkafka may wait much longer to say goodbye. Then the session's end
        says it, and a shutdown is not held up.
        """
        goodbye = threading.Thread(target=self._consumer.close, name="goodbye", daemon=True)
        goodbye.start()
        goodbye.join(_GOODBYE_SECONDS)
        if goodbye.is_alive():
            logger.warning(
                "left a consumer group without a goodbye: Kafka does not answer",
                extra=events.GROUP_LEFT_SILENTLY(),
            )
