"""A fan-out worker's share of the shards, and the triggers for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Received

from jobs.broker.client import partitions_of
from jobs.broker.membership import Membership
from jobs.messages import FANOUT_GROUP, TRIGGERS_TOPIC, shards_of

if TYPE_CHECKING:
    from chronos_site.config import BrokerConfig

# The others learn with their next heartbeat that somebody left, or died. Executors may take their
# time, as MongoDB has their jobs; here nobody looks after the shards meanwhile.
_HEARTBEAT_MS: Final = 300
# Of a topic that got more partitions, no new one is assigned before the group's leading member has
# looked at the topic again. Meanwhile nobody may own what newcomers expect to go with it.
_REFRESH_MS: Final = 5_000


class TriggerSubscription(Membership):
    """One member of the group `fanout`: whose partitions it has, its shards it owns."""

    def __init__(
        self,
        config: BrokerConfig,
        client_id: str,
        on_shards: Callable[[frozenset[int]], None],
    ) -> None:
        """Join the group.

        Args:
            config: where Kafka is, and the silence after which the group replaces a member.
            client_id: for Kafka's own logs.
            on_shards: told the shards that it owns after each rebalance, by `poll`.
        """
        self._on_shards = on_shards
        self._owned: set[int] = set()
        self._is_changed = False
        session_ms = int(config.session_timeout.total_seconds() * 1000)
        super().__init__(
            config,
            topic=TRIGGERS_TOPIC,
            group=FANOUT_GROUP,
            client_id=client_id,
            settings={
                "heartbeat.interval.ms": min(session_ms // 3, _HEARTBEAT_MS),
                "topic.metadata.refresh.interval.ms": _REFRESH_MS,
            },
            on_assign=self._take,
            on_revoke=self._give,
        )

    def poll(self, timeout_seconds: float) -> Received | None:
        """The next trigger, waiting for one; None when none came. Tells a change of the shards.

        Raises:
            BrokerUnavailable: Kafka does not tell how many partitions the topic has.
        """
        message = super().poll(timeout_seconds)
        if self._is_changed:
            self._is_changed = False
            self._on_shards(self._shards())
        return message

    def _shards(self) -> frozenset[int]:
        # With none, Kafka may be away.
        if not self._owned:
            return frozenset()
        # Anew each time: when the topic gets more partitions, the group shares them out again.
        count = partitions_of(self._consumer, TRIGGERS_TOPIC)
        return frozenset(shard for each in self._owned for shard in shards_of(each, count))

    # Within these, any other call to the client ends in an abort of the whole process.
    def _take(self, consumer: Consumer, added: list[TopicPartition]) -> None:
        self._owned.update(each.partition for each in added)
        self._is_changed = True

    def _give(self, consumer: Consumer, removed: list[TopicPartition]) -> None:
        self._owned.difference_update(each.partition for each in removed)
        self._is_changed = True
