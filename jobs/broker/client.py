"""What every Kafka client of ours has in common."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from jobs.errors import BrokerUnavailable
from jobs.logs import events
from jobs.metrics import BROKER_ERRORS

if TYPE_CHECKING:
    from chronos_site.config import BrokerConfig
    from chronos_site.transport import KafkaSecurity

logger = logging.getLogger(__name__)


def common_settings(config: BrokerConfig, client_id: str) -> dict[str, Any]:
    """librdkafka's settings that all clients share.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    config.security.check_files()
    return {
        "bootstrap.servers": ",".join(config.brokers),
        "client.id": client_id,
        "error_cb": _log_error,
        # A broker that comes back is found within half a second, not after the default's ten.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "socket.keepalive.enable": True,
        # Everything that matters comes through `error_cb`.
        "log_level": 0,
        # A topic that is missing is missing: `migrate` makes it.
        "allow.auto.create.topics": False,
        **_security_settings(config.security),
    }


def _security_settings(security: KafkaSecurity) -> dict[str, str]:
    settings = {
        "security.protocol": security.protocol,
        "sasl.mechanism": security.mechanism,
        "sasl.username": security.username,
        "sasl.password": security.password,
        "ssl.ca.location": security.ca,
        "ssl.certificate.location": security.cert,
        "ssl.key.location": security.key,
    }
    return {name: value for name, value in settings.items() if value is not None}


def unavailable(sentence: str) -> BrokerUnavailable:
    """The error to raise where Kafka does not answer; counted."""
    BROKER_ERRORS.inc()
    return BrokerUnavailable(sentence)


_LOOK_SECONDS = 2.0


def partitions_of(client: Producer | Consumer, topic: str) -> int:
    """How many partitions a topic has, asked of Kafka.

    Raises:
        BrokerUnavailable: Kafka did not answer in time, or has no such topic.
    """
    try:
        found = client.list_topics(topic, timeout=_LOOK_SECONDS).topics[topic]
    except KafkaException as exc:
        raise unavailable(f"Kafka does not tell about the topic {topic}: {exc}") from exc
    if found.error or not found.partitions:
        raise BrokerUnavailable(f"Kafka has no topic {topic}. Run: python manage.py migrate")
    return len(found.partitions)


_QUIET_SECONDS = 30.0
_last_logged: dict[int, float] = {}


def _log_error(error: KafkaError) -> None:
    # A consumer makes no calls that could end: it hears of it here.
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        BROKER_ERRORS.inc()
    # librdkafka tries to connect several times a second, and goes on by itself.
    at = time.monotonic()
    if at - _last_logged.get(error.code(), -_QUIET_SECONDS) >= _QUIET_SECONDS:
        _last_logged[error.code()] = at
        logger.warning("Kafka: %s", error.str(), extra=events.KAFKA_ERROR(error=error.str()))
