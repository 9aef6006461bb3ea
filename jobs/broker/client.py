"""What every Kafka client of ours has in common."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

if TYPE_CHECKING:
    from chronos_site.env import BrokerConfig

logger = logging.getLogger(__name__)


def common_settings(config: BrokerConfig, client_id: str) -> dict[str, Any]:
    """librdkafka's settings that all clients share."""
    return {
        "bootstrap.servers": ",".join(config.brokers),
        "client.id": client_id,
        "error_cb": _log_error,
        # A broker that comes back is found within half a second, not after the default's ten.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "socket.keepalive.enable": True,
        "log_level": 2,
    }


def _log_error(error: KafkaError) -> None:
    # Called for each broken connection: librdkafka goes on by itself.
    logger.warning("Kafka: %s", error.str())
