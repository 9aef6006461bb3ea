"""What Kafka says about itself, and why it says nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from chronos_site.certificates import untimely
from jobs.broker.client import common_settings, unavailable
from jobs.errors import ConfigError

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata

    from chronos_site.config import BrokerConfig

_TIMEOUT_SECONDS: Final = 10.0
_USER: Final = "KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD"
_TLS: Final = "KAFKA_SECURITY_PROTOCOL, KAFKA_SSL_CA, KAFKA_SSL_CERT and KAFKA_SSL_KEY"
_REFUSALS: Final = {
    KafkaError._AUTHENTICATION: _USER,
    KafkaError.SASL_AUTHENTICATION_FAILED: _USER,
    KafkaError._SSL: _TLS,
}
"""What to look at when Kafka answers, but not to us; the more telling first."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as Kafka has it."""

    partitions: int
    replicas: int
    """Of the partition that has fewest."""
    offline: int
    """Partitions that nobody leads."""
    behind: int
    """Partitions with fewer replicas in step than they have."""


class Cluster:
    """A Kafka cluster, asked by an administrator's client."""

    def __init__(self, config: BrokerConfig) -> None:
        """Prepare; it connects by itself.

        Raises:
            ConfigError: a certificate or key cannot be used.
        """
        self._brokers = config.brokers
        self._files = (config.security.ca, config.security.cert)
        self._faults: list[KafkaError] = []
        settings = common_settings(config, "chronos-admin") | {"error_cb": self._faults.append}
        try:
            self.client = AdminClient(settings)
        except KafkaException as exc:
            raise ConfigError(
                f"Kafka's client cannot be set up: {exc.args[0].str()}. Check {_TLS}."
            ) from exc

    def metadata(self, timeout_seconds: float = _TIMEOUT_SECONDS) -> ClusterMetadata:
        """Its brokers and topics.

        Raises:
            BrokerUnavailable: it did not answer in time, or refuses this client.
        """
        try:
            return self.client.list_topics(timeout=timeout_seconds)
        except KafkaException as exc:
            raise unavailable(self._why()) from exc

    def describe(self, timeout_seconds: float) -> tuple[int, Mapping[str, Topic]]:
        """How many brokers there are, and the topics by name.

        Raises:
            BrokerUnavailable: see `metadata`.
        """
        found = self.metadata(timeout_seconds)
        return len(found.brokers), {
            name: Topic(
                len(topic.partitions),
                min((len(each.replicas) for each in topic.partitions.values()), default=0),
                sum(each.leader < 0 for each in topic.partitions.values()),
                sum(len(each.isrs) < len(each.replicas) for each in topic.partitions.values()),
            )
            for name, topic in found.topics.items()
        }

    def absent(self, topics: Iterable[str]) -> list[str]:
        """Those of some topics that it does not have.

        Raises:
            BrokerUnavailable: see `metadata`.
        """
        there = self.metadata().topics
        return [name for name in topics if name not in there]

    def _why(self) -> str:
        where = ", ".join(self._brokers)
        # Only now are the faults of the connections told.
        self.client.poll(0)
        for code, settings in _REFUSALS.items():
            for fault in self._faults:
                if fault.code() == code:
                    return self._refused(fault, settings)
        for fault in self._faults:
            # It accepted the connection and then wanted another certificate, or one at all.
            if "SSL routines" in fault.str():
                return self._refused(fault, _TLS)
        # No word of a connection that failed: what is there hangs up.
        if {fault.code() for fault in self._faults} == {KafkaError._ALL_BROKERS_DOWN}:
            return (
                f"Kafka at {where} hangs up: it may demand TLS or a user, or neither. Check "
                "KAFKA_BROKERS and KAFKA_SECURITY_PROTOCOL."
            )
        return (
            f"Kafka does not answer at {where}. Start it, or bring it back; else check "
            f"KAFKA_BROKERS, {_TLS}."
        )

    def _refused(self, fault: KafkaError, settings: str) -> str:
        also = ", and the name and dates of the broker's certificate" if settings == _TLS else ""
        said = f"Kafka refuses this client ({fault.str()}). Check {settings}{also}."
        return said + untimely(self._files)
