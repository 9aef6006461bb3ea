"""Kafka: brokers, topics, partitions, replicas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from chronos_site.config import BrokerConfig
from jobs.broker.cluster import Cluster, Topic
from jobs.broker.topics import topics_for
from jobs.doctor.finding import Finding, fail, ok, warn
from jobs.messages import DLQ_TOPIC
from jobs.wording import listed

_PATIENCE: Final = 5.0
_MIGRATE: Final = "Run: python manage.py migrate"
_MORE_PARTITIONS: Final = "Raise the number of partitions with Kafka's tools: kafka-topics --alter."


def examine(
    config: BrokerConfig, job_types: Collection[str], readers: Callable[[], Mapping[str, int]]
) -> Iterator[Finding]:
    """All about Kafka, whose protocol does not tell its version.

    Args:
        config: where it is.
        job_types: whose topics must be there.
        readers: how many processes read each topic; asked last, as that may take a while.
    """
    brokers, topics = Cluster(config).describe(_PATIENCE)
    if brokers < config.replication:
        yield fail(
            f"brokers: {brokers}, KAFKA_REPLICATION is {config.replication}",
            "Start more brokers: new topics cannot be made.",
        )
    else:
        yield ok(f"brokers: {brokers}")
    wanted = topics_for(job_types)
    if absent := [name for name in wanted if name not in topics]:
        yield fail(f"topics are missing: {listed(absent)}", _MIGRATE)
    there = {name: topics[name] for name in wanted if name in topics}
    if there:
        yield ok(f"topics: {len(there)}, {_shapes(there)}")
    if single := [name for name, topic in there.items() if topic.replicas == 1]:
        yield warn(
            f"topics with one replica: {len(single)}",
            "Have three brokers, KAFKA_REPLICATION=3, and more replicas "
            "(kafka-reassign-partitions): the loss of one broker stops these.",
        )
    yield from judge_topics(there, config)
    for name, count in readers().items():
        if name in there and count > there[name].partitions:
            yield warn(
                f"{name} has {there[name].partitions} partitions and {count} readers: some have "
                "nothing to do",
                _MORE_PARTITIONS,
            )


def judge_topics(topics: Mapping[str, Topic], config: BrokerConfig) -> Iterator[Finding]:
    """Whether their partitions work, and are as many as the settings say."""
    for name, topic in topics.items():
        if topic.offline:
            yield fail(
                f"{name}: nobody leads {topic.offline} of {topic.partitions} partitions",
                "Bring the brokers back that hold them.",
            )
        elif topic.behind:
            yield warn(
                f"{name}: {topic.behind} of {topic.partitions} partitions lack a replica in step",
                "Look at the brokers that hold them.",
            )
        if topic.replicas < config.replication:
            yield warn(
                f"{name}: replicas: {topic.replicas}, KAFKA_REPLICATION is {config.replication}",
                "Give it more with Kafka's tools: kafka-reassign-partitions.",
            )
        if topic.partitions < config.partitions and name != DLQ_TOPIC:
            yield warn(
                f"{name} has {topic.partitions} partitions, KAFKA_PARTITIONS is "
                f"{config.partitions}",
                f"{_MORE_PARTITIONS} migrate changes no topic that is there.",
            )


def _shapes(topics: Mapping[str, Topic]) -> str:
    shapes = sorted({(topic.partitions, topic.replicas) for topic in topics.values()})
    return ", ".join(f"{partitions} partitions × {replicas}" for partitions, replicas in shapes)
