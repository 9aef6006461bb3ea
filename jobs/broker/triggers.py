"""A fan-out worker's share of the shards, and the triggers for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, TopicPartition

from jobs.broker.client import partitions_of
from jobs.broker.membership import Membership
from jobs.errors import BrokerUnavailable
from jobs.messages import FANOUT_GROUP, TRIGGERS_TOPIC, shards_of

if TYPE_CHECKING:
    from chronos_site.env import BrokerConfig

# The others learn with their next heartbeat that somebody left, or died. Executors may take their
# time, as MongoDB has their jobs; here nobody looks after the shards meanwhile.
_HEARTBEAT_MS: Final = 300


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
        self._partitions: int | None = None
        self._closing = False
        session_ms = int(config.session_timeout.total_seconds() * 1000)
        super().__init__(
            config,
            topic=TRIGGERS_TOPIC,
            group=FANOUT_GROUP,
            client_id=client_id,
            settings={"heartbeat.interval.ms": min(session_ms // 3, _HEARTBEAT_MS)},
            on_assign=self._take,
            on_revoke=self._give,
        )

    def _take(self, consumer: Consumer, added: list[TopicPartition]) -> None:
        # Anew each time: when the topic gets more partitions, the group shares them out again.
        try:
            self._partitions = partitions_of(consumer, TRIGGERS_TOPIC)
        except BrokerUnavailable:
            if self._partitions is None:
                raise
        self._owned.update(each.partition for each in added)
        self._tell(self._partitions)

    def _give(self, consumer: Consumer, removed: list[TopicPartition]) -> None:
        self._owned.difference_update(each.partition for each in removed)
        if self._partitions is not None:
            self._tell(self._partitions)

    def _tell(self, partitions: int) -> None:
        if not self._closing:
            self._on_shards(
                frozenset(shard for each in self._owned for shard in shards_of(each, partitions))
            )

    def close(self) -> None:
        """Leave the group, so that others own the shards at once; 5 s at the most."""
        # Where Kafka is away, the last rebalance may come when this is long forgotten.
        self._closing = True
        super().close()
