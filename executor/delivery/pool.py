"""Putting together what delivers."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection
from datetime import datetime
from typing import TYPE_CHECKING

import certifi

from executor.delivery.clock import SteadyClock
from executor.delivery.connections import Connections
from executor.delivery.couriers import Couriers
from executor.delivery.http import HttpSender
from executor.delivery.kafka import KafkaSender
from executor.delivery.network import Resolve, Rules
from executor.delivery.request import Requests
from executor.delivery.resolver import Resolver
from executor.delivery.sender import Sender
from executor.pool import Means, Pool
from jobs.broker.outbox import Outbox
from jobs.delivery.config import HTTP, KAFKA
from jobs.delivery.secrets import Secrets

if TYPE_CHECKING:
    from chronos_site.config import BrokerConfig, DeliveryConfig


def delivery_pool(
    job_types: Collection[str],
    config: DeliveryConfig,
    broker: BrokerConfig,
    *,
    name: str,
    user_agent: str,
) -> Pool:
    """HTTP and Kafka deliveries, by an event loop.

    Args:
        job_types: those of `DELIVERY_TYPES` to serve.
        config: how deliveries are made.
        broker: where messages go.
        name: what Kafka's logs call the producer.
        user_agent: who HTTP requests say that we are.
    """

    def hire(means: Means) -> Couriers:
        clock = SteadyClock(means.clock)
        senders: dict[str, Sender] = {}
        if HTTP in job_types:
            senders[HTTP] = http_sender(config, clock=clock, user_agent=user_agent)
        if KAFKA in job_types:
            senders[KAFKA] = kafka_sender(config, broker, name=name)
        return Couriers(means, clock, senders)

    # All that is started is under way: nothing is gained by starting ahead.
    return Pool(
        "deliveries", tuple(sorted(job_types)), config.concurrency, hire, starts_ahead=False
    )


def http_sender(
    config: DeliveryConfig,
    *,
    clock: Callable[[], datetime],
    user_agent: str,
    resolve: Resolve | None = None,
) -> HttpSender:
    """What makes requests. `resolve` tells the addresses of a host; None: the system does."""
    rules = Rules(
        resolve or Resolver(), config.allowed_networks, config.connect_timeout.total_seconds()
    )
    connections = Connections(
        rules,
        _tls(),
        per_host=config.per_host,
        # They take open files too.
        most_idle=config.concurrency // 4,
        keep_seconds=config.keep_alive.total_seconds(),
    )
    return HttpSender(
        connections,
        Requests(Secrets(config.encryption_keys), clock=clock, user_agent=user_agent),
        clock=clock,
        patience=config.patience.total_seconds(),
    )


def kafka_sender(config: DeliveryConfig, broker: BrokerConfig, *, name: str) -> KafkaSender:
    """What sends messages."""
    outbox = Outbox(broker, name, timeout=config.kafka_timeout)
    return KafkaSender(outbox, seconds=config.kafka_timeout.total_seconds())


def _tls() -> ssl.SSLContext:
    """The system's authorities (SSL_CERT_FILE is heeded), and Mozilla's where it has none."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context
