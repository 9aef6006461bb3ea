"""The only reader of the environment: its variables, parsed and validated.

`VARIABLES` is the complete list; docs/settings.md is checked against it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chronos_site.transport import KAFKA_PROTOCOLS, SASL_MECHANISMS
from chronos_site.values import (
    addresses,
    anything,
    boolean,
    choice,
    database,
    fernet_keys,
    fraction,
    integer,
    mongo_uri,
    networks,
    positive_duration,
    redis_url,
    silenced,
    web_address,
    words,
)
from jobs.errors import ConfigError


@dataclass(frozen=True)
class Variable:
    """One environment variable: its parser, its default as one would write it, its meaning."""

    parse: Callable[[str], Any]
    default: str | None
    meaning: str


_PORT = integer(1, 65535)

VARIABLES: Mapping[str, Variable] = {
    "MONGO_URI": Variable(
        mongo_uri,
        "mongodb://127.0.0.1:27017/?replicaSet=rs0",
        "MongoDB: a replica set, also of one node",
    ),
    "MONGO_DB": Variable(database, "chronos", "name of the database"),
    "KAFKA_BROKERS": Variable(
        addresses, "127.0.0.1:9092", "Kafka bootstrap servers, host:port, comma-separated"
    ),
    "KAFKA_PARTITIONS": Variable(
        integer(1, 10_000), "4", "partitions of a topic when `migrate` creates it"
    ),
    "KAFKA_REPLICATION": Variable(
        integer(1, 100), "1", "replicas of a topic when `migrate` creates it"
    ),
    "KAFKA_SESSION_TIMEOUT": Variable(
        positive_duration, "6s", "silence after which the group replaces an executor"
    ),
    "KAFKA_SECURITY_PROTOCOL": Variable(
        choice(*KAFKA_PROTOCOLS), "PLAINTEXT", "whether Kafka is spoken to by TLS, and as a user"
    ),
    "KAFKA_SASL_MECHANISM": Variable(
        choice(*SASL_MECHANISMS), None, "how the user proves who it is"
    ),
    "KAFKA_SASL_USERNAME": Variable(anything, None, "user for Kafka"),
    "KAFKA_SASL_PASSWORD": Variable(anything, None, "its password"),
    "KAFKA_SSL_CA": Variable(
        anything, None, "PEM file of the authorities that vouch for Kafka; unset: the system's"
    ),
    "KAFKA_SSL_CERT": Variable(anything, None, "PEM file of the client's certificate for Kafka"),
    "KAFKA_SSL_KEY": Variable(anything, None, "PEM file of its key"),
    "ETCD_ENDPOINTS": Variable(
        addresses, "127.0.0.1:2379", "etcd members, host:port, comma-separated"
    ),
    "ETCD_TLS_CA": Variable(
        anything, None, "PEM file of the authorities that vouch for etcd; unset: no TLS"
    ),
    "ETCD_TLS_CERT": Variable(anything, None, "PEM file of the client's certificate for etcd"),
    "ETCD_TLS_KEY": Variable(anything, None, "PEM file of its key"),
    "ETCD_USERNAME": Variable(anything, None, "user for etcd"),
    "ETCD_PASSWORD": Variable(anything, None, "its password"),
    "REDIS_URL": Variable(
        redis_url, "redis://127.0.0.1:6379/0", "Redis, with LEADER_BACKEND redis"
    ),
    "LEADER_BACKEND": Variable(
        choice("etcd", "redis"), "etcd", "what elects the leading scheduler"
    ),
    "LEADER_TTL": Variable(positive_duration, "10s", "silence after which a leader is replaced"),
    "API_HOST": Variable(anything, "127.0.0.1", "address the API listens on"),
    "API_PORT": Variable(_PORT, "8080", "port of the API"),
    "METRICS_HOST": Variable(anything, "127.0.0.1", "address of /metrics, /healthz and /readyz"),
    "METRICS_PORT": Variable(_PORT, "9100", "port of /metrics, /healthz and /readyz"),
    "SCHEDULER_TICK": Variable(
        positive_duration, "500ms", "longest sleep between two looks for due jobs"
    ),
    "DISPATCH": Variable(
        choice("leader", "fanout"),
        "leader",
        "who dispatches due jobs: the leading scheduler, or the fan-out workers",
    ),
    "CLAIM_BATCH": Variable(integer(1, 10_000), "1000", "jobs dispatched in one step, at most"),
    "CRON_BATCH": Variable(integer(1, 10_000), "1000", "templates fired in one step, at most"),
    "MISFIRE_GRACE": Variable(
        positive_duration,
        "1m",
        "lateness after which an occurrence counts as missed (catchUp none)",
    ),
    "QUEUED_TIMEOUT": Variable(
        positive_duration, "30s", "time after which a queued job's message counts as lost"
    ),
    "CLAIM_TIMEOUT": Variable(
        positive_duration, "5m", "time without a sign of life after which a claim counts as lost"
    ),
    "REAPER_INTERVAL": Variable(positive_duration, "30s", "time between two sweeps of the reaper"),
    "BULK_RATE": Variable(
        integer(1, 100_000), "500", "dead letters a second that a bulk operation moves, at most"
    ),
    "JOB_TYPE": Variable(words, "all", "job types an executor serves when --type is not given"),
    "EXECUTOR_CONCURRENCY": Variable(
        integer(1, 1000), "16", "handlers run at once when --concurrency is not given"
    ),
    "EXECUTOR_PREFETCH": Variable(
        integer(0, 10_000),
        "2000",
        "jobs held beyond the running ones, at most (fast handlers only)",
    ),
    "DELIVERY_CONCURRENCY": Variable(
        integer(1, 10_000), "512", "HTTP and Kafka deliveries an executor makes at once"
    ),
    "DELIVERY_PER_HOST": Variable(
        integer(1, 10_000), "256", "connections of an executor to one host and port, at most"
    ),
    "DELIVERY_ALLOWED_NETWORKS": Variable(
        networks, None, "private networks that HTTP deliveries may reach, as CIDR, comma-separated"
    ),
    "ENCRYPTION_KEYS": Variable(
        fernet_keys,
        None,
        "keys for secrets at rest (Fernet), comma-separated: the first encrypts, all decrypt",
    ),
    "LOG_LINES_PER_ATTEMPT": Variable(
        integer(0, 100_000), "1000", "lines kept of what one attempt logs, at most"
    ),
    "DRAIN_TIMEOUT": Variable(positive_duration, "30s", "time running handlers get after SIGTERM"),
    "RETENTION_COMPLETED": Variable(
        positive_duration, None, "age at which a completed job is deleted; unset: never"
    ),
    "RETENTION_DLQ": Variable(
        positive_duration, None, "age at which a dead letter is deleted; unset: never"
    ),
    "RETENTION_EXECUTIONS": Variable(
        positive_duration, None, "age at which the record of an attempt is deleted; unset: never"
    ),
    "RETENTION_LOGS": Variable(
        positive_duration, "168h", "age at which what an attempt logged is deleted"
    ),
    "LOG_FORMAT": Variable(choice("json", "text"), "json", "JSON lines, or text for a terminal"),
    "LOG_LEVEL": Variable(
        choice("DEBUG", "INFO", "WARNING", "ERROR"), "INFO", "least severe log level written"
    ),
    "TRACING_ENDPOINT": Variable(
        web_address,
        None,
        "URL that takes traces, such as http://collector:4318/v1/traces; unset: off",
    ),
    "TRACING_SAMPLE": Variable(fraction, "1", "share of traces that is kept, 0 to 1"),
    "DEBUG": Variable(boolean, "false", "Django's debug pages; never in production"),
    "SECRET_KEY": Variable(anything, None, "Django's secret key; unset: a new one at each start"),
    "ALLOWED_HOSTS": Variable(
        words, "localhost,127.0.0.1,[::1]", "host names that the API answers to"
    ),
    "HTTPS": Variable(
        boolean, "false", "whether people reach the admin by HTTPS: cookies go over nothing else"
    ),
    "SILENCED_CHECKS": Variable(
        silenced,
        None,
        "checks of `check --deploy` that do not apply, with the reason: `id: reason; id: reason`",
    ),
    "MONGOD_BIN": Variable(anything, None, "devstack and tests: the mongod to start"),
    "ETCD_BIN": Variable(anything, None, "devstack and tests: the etcd to start"),
    "KAFKA_HOME": Variable(anything, None, "devstack and tests: a Kafka installation to start"),
    "JAVA_HOME": Variable(anything, None, "devstack and tests: the Java for KAFKA_HOME"),
    "REDIS_BIN": Variable(anything, None, "devstack and tests: the redis-server to start"),
    "CHROMIUM_BIN": Variable(anything, None, "tests: the chromium or Chrome to drive"),
    "PROMETHEUS_BIN": Variable(anything, None, "tests: the prometheus to start"),
    "PROMTOOL_BIN": Variable(anything, None, "tests: the promtool to run"),
    "KUSTOMIZE_BIN": Variable(anything, None, "tests: the kustomize to run"),
    "DEVSTACK_DIR": Variable(
        anything, ".devstack", "devstack: where its servers keep data and logs"
    ),
    "DEVSTACK_MONGO_PORT": Variable(_PORT, "27017", "devstack: port of its mongod"),
    "DEVSTACK_KAFKA_PORT": Variable(_PORT, "9092", "devstack: port of its Kafka"),
    "DEVSTACK_ETCD_PORT": Variable(_PORT, "2379", "devstack: port of its etcd"),
    "DEVSTACK_REDIS_PORT": Variable(_PORT, "6379", "devstack: port of its Redis"),
}


SECRETS = frozenset(
    {
        "MONGO_URI",
        "REDIS_URL",
        "ENCRYPTION_KEYS",
        "SECRET_KEY",
        "KAFKA_SASL_PASSWORD",
        "ETCD_PASSWORD",
    }
)
"""Whose values are never shown: addresses too may hold a password."""


def read(environ: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """The value of every variable, by name; a default where it is unset or empty.

    Raises:
        ConfigError: a value cannot be used. The text names the variable.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    for name, variable in VARIABLES.items():
        text = environ.get(name) or variable.default
        try:
            values[name] = None if text is None else variable.parse(text)
        except ValueError as exc:
            # An address may hold a password where it must not.
            is_hidden = name in SECRETS or "@" in str(text)
            shown = name if is_hidden else f"{name}={text!r:.100}"
            raise ConfigError(f"{shown}: {exc}. Meaning: {variable.meaning}.") from exc
    return values


def is_set(name: str) -> bool:
    """Whether the operator gave this variable a value."""
    return bool(os.environ.get(name))


def for_child(**changes: str) -> dict[str, str]:
    """The environment of a child process: this one's with some variables set."""
    return os.environ | changes
