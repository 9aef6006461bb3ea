"""Creating the topics, and finding out which are missing."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import NewTopic

from jobs.broker.client import unavailable
from jobs.broker.cluster import Cluster
from jobs.errors import NotProvisioned
from jobs.messages import DLQ_TOPIC, TRIGGERS_TOPIC, dispatch_topic
from jobs.wording import listed

if TYPE_CHECKING:
    from chronos_site.config import BrokerConfig

_CREATION_SECONDS = 10.0
_PING_SECONDS = 2.0
_LOOK_SECONDS = 0.02


def topics_for(job_types: Iterable[str], *, fans_out: bool = True) -> list[str]:
    """Every topic that these job types need, with that of fan-out workers."""
    dispatch = [dispatch_topic(job_type) for job_type in sorted(job_types)]
    return [DLQ_TOPIC, *([TRIGGERS_TOPIC] if fans_out else []), *dispatch]


def ensure_topics(config: BrokerConfig, topics: Iterable[str]) -> list[str]:
    """Create the topics that are missing. Repeatable.

    Returns:
        The names of those created.

    Raises:
        BrokerUnavailable: Kafka did not answer in time, or refused.
    """
    cluster = Cluster(config)
    absent = cluster.absent(topics)
    if not absent:
        return []
    wanted = [
        NewTopic(name, num_partitions=config.partitions, replication_factor=config.replication)
        for name in absent
    ]
    created = cluster.client.create_topics(wanted, operation_timeout=_CREATION_SECONDS)
    for name, future in created.items():
        try:
            future.result(_CREATION_SECONDS)
        except KafkaException as exc:
            if exc.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise unavailable(f"Kafka did not create the topic {name}: {exc}") from exc
    _wait_until_there(cluster, absent)
    return absent


def require_topics(
    config: BrokerConfig, job_types: Iterable[str], *, fans_out: bool = False
) -> None:
    """Refuse to work on a broker without the topics of these job types.

    Args:
        config: where Kafka is.
        job_types: whose.
        fans_out: also without that of fan-out workers.

    Raises:
        NotProvisioned: with the command that creates them.
        BrokerUnavailable: Kafka did not answer in time.
    """
    if absent := Cluster(config).absent(topics_for(job_types, fans_out=fans_out)):
        raise NotProvisioned(
            f"Kafka lacks the topics {listed(absent)}. Run: python manage.py migrate"
        )


def ping(config: BrokerConfig) -> None:
    """Answer within 2 s whether Kafka is there.

    Raises:
        BrokerUnavailable: it is not.
    """
    Cluster(config).metadata(_PING_SECONDS)


def _wait_until_there(cluster: Cluster, topics: Iterable[str]) -> None:
    # The controller has them; the brokers learn of them a moment later. Until then a role that is
    # started would miss them.
    give_up_at = time.monotonic() + _CREATION_SECONDS
    while absent := cluster.absent(topics):
        if time.monotonic() > give_up_at:
            raise unavailable(f"Kafka does not show the new topics {', '.join(absent)}.")
        time.sleep(_LOOK_SECONDS)
