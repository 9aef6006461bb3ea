"""What each role is told, as frozen dataclasses: `config_from` makes them from the variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from chronos_site.transport import EtcdSecurity, KafkaSecurity, check_mongo_files
from chronos_site.values import Network
from jobs.errors import ConfigError


@dataclass(frozen=True)
class StoreConfig:
    """Where the jobs are."""

    uri: str = field(repr=False)
    database: str
    retention_completed: timedelta | None = None
    retention_dlq: timedelta | None = None
    retention_executions: timedelta | None = None
    retention_logs: timedelta = timedelta(days=7)

    def __post_init__(self) -> None:
        check_mongo_files(self.uri)


@dataclass(frozen=True)
class BrokerConfig:
    """Where the wake-up messages go."""

    brokers: tuple[str, ...]
    partitions: int = 4
    replication: int = 1
    session_timeout: timedelta = timedelta(seconds=6)
    security: KafkaSecurity = field(default_factory=KafkaSecurity)


@dataclass(frozen=True)
class ElectionConfig:
    """Who elects the leading scheduler."""

    backend: str
    endpoints: tuple[str, ...]
    ttl: timedelta = timedelta(seconds=10)
    database: str = "chronos"
    """Whose scheduler is elected: each database has its own, also on a shared backend."""
    redis_url: str = field(default="redis://127.0.0.1:6379/0", repr=False)
    security: EtcdSecurity = field(default_factory=EtcdSecurity)

    def __post_init__(self) -> None:
        if self.ttl < timedelta(seconds=1):
            raise ConfigError(
                "LEADER_TTL must be 1s or longer: etcd leases count in whole seconds."
            )


@dataclass(frozen=True)
class SchedulerConfig:
    """How the scheduler works."""

    tick: timedelta = timedelta(milliseconds=500)
    claim_batch: int = 1000
    cron_batch: int = 1000
    misfire_grace: timedelta = timedelta(minutes=1)
    fans_out: bool = False
    """Fan-out workers dispatch; the leader fires templates and wakes them."""


@dataclass(frozen=True)
class ExecutorConfig:
    """How an executor works."""

    job_types: tuple[str, ...] = ("all",)
    concurrency: int = 16
    prefetch: int = 2000
    claim_timeout: timedelta = timedelta(minutes=5)
    drain_timeout: timedelta = timedelta(seconds=30)
    log_lines: int = 1000
    """Kept of what one attempt logs."""


@dataclass(frozen=True)
class DeliveryConfig:
    """How HTTP and Kafka deliveries are made."""

    concurrency: int = 512
    per_host: int = 256
    """Connections to one host and port."""
    allowed_networks: tuple[Network, ...] = ()
    """Private networks that may be reached all the same."""
    encryption_keys: tuple[str, ...] = field(default=(), repr=False)
    connect_timeout: timedelta = timedelta(seconds=10)
    """For resolving a name, connecting and TLS together."""
    patience: timedelta = timedelta(seconds=10)
    """What is waited for a free connection to a host."""
    keep_alive: timedelta = timedelta(seconds=15)
    """How long a connection is kept without use."""
    kafka_timeout: timedelta = timedelta(seconds=30)
    """What is waited for Kafka to confirm a message."""


@dataclass(frozen=True)
class ReaperConfig:
    """How the reaper works."""

    interval: timedelta = timedelta(seconds=30)
    queued_timeout: timedelta = timedelta(seconds=30)
    claim_timeout: timedelta = timedelta(minutes=5)
    bulk_rate: int = 500
    """Dead letters a second that a bulk operation moves."""


@dataclass(frozen=True)
class TracingConfig:
    """Where spans go."""

    endpoint: str | None = None
    """None: nothing is traced."""
    sample: float = 1.0
    """Share of the traces begun here that is kept."""


@dataclass(frozen=True)
class ListenConfig:
    """Where a role listens."""

    api_host: str
    api_port: int
    metrics_host: str
    metrics_port: int


@dataclass(frozen=True)
class Config:
    """Everything the roles need, read once at start (`settings.CHRONOS`)."""

    store: StoreConfig
    broker: BrokerConfig
    election: ElectionConfig
    scheduler: SchedulerConfig
    executor: ExecutorConfig
    delivery: DeliveryConfig
    reaper: ReaperConfig
    listen: ListenConfig
    tracing: TracingConfig


def config_from(values: Mapping[str, Any]) -> Config:
    """Group the values of `env.read` by who needs them.

    Raises:
        ConfigError: two values contradict each other.
    """
    return Config(
        store=StoreConfig(
            values["MONGO_URI"],
            values["MONGO_DB"],
            values["RETENTION_COMPLETED"],
            values["RETENTION_DLQ"],
            values["RETENTION_EXECUTIONS"],
            values["RETENTION_LOGS"],
        ),
        broker=BrokerConfig(
            values["KAFKA_BROKERS"],
            values["KAFKA_PARTITIONS"],
            values["KAFKA_REPLICATION"],
            values["KAFKA_SESSION_TIMEOUT"],
            KafkaSecurity(
                values["KAFKA_SECURITY_PROTOCOL"],
                values["KAFKA_SASL_MECHANISM"],
                values["KAFKA_SASL_USERNAME"],
                values["KAFKA_SASL_PASSWORD"],
                values["KAFKA_SSL_CA"],
                values["KAFKA_SSL_CERT"],
                values["KAFKA_SSL_KEY"],
            ),
        ),
        election=ElectionConfig(
            values["LEADER_BACKEND"],
            values["ETCD_ENDPOINTS"],
            values["LEADER_TTL"],
            values["MONGO_DB"],
            values["REDIS_URL"],
            EtcdSecurity(
                values["ETCD_TLS_CA"],
                values["ETCD_TLS_CERT"],
                values["ETCD_TLS_KEY"],
                values["ETCD_USERNAME"],
                values["ETCD_PASSWORD"],
            ),
        ),
        scheduler=SchedulerConfig(
            values["SCHEDULER_TICK"],
            values["CLAIM_BATCH"],
            values["CRON_BATCH"],
            values["MISFIRE_GRACE"],
            values["DISPATCH"] == "fanout",
        ),
        executor=ExecutorConfig(
            values["JOB_TYPE"],
            values["EXECUTOR_CONCURRENCY"],
            values["EXECUTOR_PREFETCH"],
            values["CLAIM_TIMEOUT"],
            values["DRAIN_TIMEOUT"],
            values["LOG_LINES_PER_ATTEMPT"],
        ),
        delivery=DeliveryConfig(
            values["DELIVERY_CONCURRENCY"],
            values["DELIVERY_PER_HOST"],
            values["DELIVERY_ALLOWED_NETWORKS"] or (),
            values["ENCRYPTION_KEYS"] or (),
        ),
        reaper=ReaperConfig(
            values["REAPER_INTERVAL"],
            values["QUEUED_TIMEOUT"],
            values["CLAIM_TIMEOUT"],
            values["BULK_RATE"],
        ),
        listen=ListenConfig(
            values["API_HOST"], values["API_PORT"], values["METRICS_HOST"], values["METRICS_PORT"]
        ),
        tracing=TracingConfig(values["TRACING_ENDPOINT"], values["TRACING_SAMPLE"]),
    )
