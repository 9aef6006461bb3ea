"""An executor's share of a job type's messages."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition
from confluent_kafka import Message as Received

from jobs.broker.membership import Membership
from jobs.messages import consumer_group, dispatch_topic

if TYPE_CHECKING:
    from chronos_site.config import BrokerConfig

__all__ = ["Received", "Subscription"]

_ASK_SECONDS = 2.0


class Subscription(Membership):
    """One member of the group `executor-<jobType>`.

    What it received is `done` when its claim is durable.
    """

    def __init__(self, config: BrokerConfig, job_type: str, client_id: str) -> None:
        self._added: list[TopicPartition] = []
        super().__init__(
            config,
            topic=dispatch_topic(job_type),
            group=consumer_group(job_type),
            client_id=client_id,
            on_assign=self._take,
        )

    def poll(self, timeout_seconds: float) -> Received | None:
        """The next message, waiting for one; None when none came."""
        message = super().poll(timeout_seconds)
        if message is None and self._added:
            self._begin()
        return message

    # Within it, any other call to the client ends in an abort of the whole process.
    def _take(self, consumer: Consumer, added: list[TopicPartition]) -> None:
        self._added += added

    def _begin(self) -> None:
        """Tell Kafka where the group begins, where it has forgotten or never knew.

        Else everything that ever was in the partition would count as consumer lag, also what was
        deleted long ago, and a scaler would keep executors that have nothing to do.
        """
        try:
            # Where something was read, `done` tells.
            unread = [
                each
                for each in self._consumer.position(self._added)
                if each.offset == OFFSET_INVALID
            ]
            committed = self._consumer.committed(unread, timeout=_ASK_SECONDS)
            unknown = [each for each in committed if each.offset == OFFSET_INVALID]
            for each in unknown:
                each.offset, _ = self._consumer.get_watermark_offsets(each, timeout=_ASK_SECONDS)
        except KafkaException:
            # Kafka is away: tried again at the next poll.
            return
        self._added = []
        for each in unknown:
            # One that went to another member is that one's to tell about.
            with suppress(KafkaException):
                self._consumer.store_offsets(offsets=[each])
