"""What every Kafka client of ours has in common."""

from __future__ import annotations

import logging
import time
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
        # Everything that matters comes through `error_cb`.
        "log_level": 0,
    }


_QUIET_SECONDS = 30.0
_last_logged: dict[int, float] = {}


def _log_error(error: KafkaError) -> None:
    # librdkafka tries to connect several times a second, and goes on by itself.
    at = time.monotonic()
    if at - _last_logged.get(error.code(), -_QUIET_SECONDS) >= _QUIET_SECONDS:
        _last_logged[error.code()] = at
        logger.warning("Kafka: %s", error.str())
