"""What `manage.py check --deploy` says about the settings of an installation.

Each rule stands in docs/security.md too; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from chronos_site.config import Config
from chronos_site.env import VARIABLES
from chronos_site.transport import Address, are_here
from jobs.delivery.addresses import MACHINE_FACTS
from jobs.placeholders import has_placeholder, is_placeholder

# As Django's security.W009 wants it.
_SHORTEST_KEY: Final = 50
_FEWEST_CHARACTERS: Final = 5
# A random one has 43 of 64 characters: hardly ever do fewer than 22 of them differ.
_FEWEST_IN_FERNET_KEY: Final = 16
_SENSITIVE: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"), *MACHINE_FACTS)
_CARELESS_MONGO: Final = ("tlsinsecure", "tlsallowinvalidcertificates", "tlsallowinvalidhostnames")


@dataclass(frozen=True)
class Installation:
    """What the rules look at."""

    values: Mapping[str, Any]
    """Of `chronos_site.env.read`."""
    config: Config
    directory: Path
    """Where devstack would keep what it made."""

    @property
    def mongo(self) -> Address:
        return Address.of(self.config.store.uri)

    @property
    def redis(self) -> Address:
        return Address.of(self.config.election.redis_url)

    @property
    def elects_by_redis(self) -> bool:
        return self.config.election.backend == "redis"

    def is_elsewhere(self, addresses: Iterable[str]) -> bool:
        """Whether any of these host:port is another machine."""
        return not are_here(_host(address) for address in addresses)

    def is_from_devstack(self, file: str, *values: str | None) -> bool:
        """Whether a key is one that devstack made for development."""
        path = self.directory / file
        return path.is_file() and path.read_text().strip() in values


@dataclass(frozen=True)
class Rule:
    """One thing that must not be so in production."""

    id: str
    problem: str
    remedy: str
    is_broken: Callable[[Installation], bool]

    def message(self) -> CheckMessage:
        kind = Error if self.id.startswith("chronos.E") else Warning
        return kind(self.problem, hint=self.remedy, id=self.id)


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


def _is_guessable(it: Installation) -> bool:
    key = it.values["SECRET_KEY"]
    return key is not None and (
        len(key) < _SHORTEST_KEY or len(set(key)) < _FEWEST_CHARACTERS or is_placeholder(key)
    )


def _is_open(host: str) -> bool:
    return not are_here([host.strip("[]")])


def _allows_everything(it: Installation) -> bool:
    return any(network.prefixlen == 0 for network in it.config.delivery.allowed_networks)


def _allows_sensitive(it: Installation) -> bool:
    return not _allows_everything(it) and any(
        network.version == sensitive.version and network.overlaps(sensitive)
        for network in it.config.delivery.allowed_networks
        for sensitive in _SENSITIVE
    )


def _skips_mongo_checks(it: Installation) -> bool:
    return any(it.mongo.options.get(name, "").lower() == "true" for name in _CARELESS_MONGO)


def _mongo_knows_no_user(it: Installation) -> bool:
    named = it.mongo.has_user or "authmechanism" in it.mongo.options
    return not are_here(it.mongo.hosts) and not named


def _is_elected_in_the_clear(it: Installation) -> bool:
    election = it.config.election
    if it.elects_by_redis:
        return not are_here(it.redis.hosts) and not it.redis.is_encrypted
    return it.is_elsewhere(election.endpoints) and election.security.ca is None


def _is_elected_by_nobody(it: Installation) -> bool:
    election, security = it.config.election, it.config.election.security
    if it.elects_by_redis:
        known = it.redis.has_user or "password" in it.redis.options
        return not are_here(it.redis.hosts) and not known
    known = security.username is not None or security.cert is not None
    return it.is_elsewhere(election.endpoints) and not known


def _keeps_for_ever(it: Installation) -> bool:
    store = it.config.store
    return store.retention_completed is None or store.retention_executions is None


RULES: Final = (
    Rule(
        "chronos.E001",
        "DEBUG is on: errors show code, settings and payloads to whoever causes one.",
        "Unset DEBUG.",
        lambda it: it.values["DEBUG"],
    ),
    Rule(
        "chronos.E002",
        "SECRET_KEY is not set: each process makes its own, so nobody stays logged in.",
        "Set SECRET_KEY to 50 random characters or more, the same for all API processes.",
        lambda it: it.values["SECRET_KEY"] is None,
    ),
    Rule(
        "chronos.E003",
        "SECRET_KEY can be guessed: it is short, has hardly any different characters, or is one of "
        "an example.",
        "Set SECRET_KEY to 50 random characters or more.",
        _is_guessable,
    ),
    Rule(
        "chronos.E004",
        "SECRET_KEY or ENCRYPTION_KEYS is one that devstack made for development.",
        "Make new keys for production, and run resealsecrets with the old encryption key behind.",
        lambda it: (
            it.is_from_devstack("secret.key", it.values["SECRET_KEY"])
            or it.is_from_devstack("encryption.key", *it.config.delivery.encryption_keys)
        ),
    ),
    Rule(
        "chronos.E005",
        "ALLOWED_HOSTS is the default, or allows every name: the API cannot be reached by its own "
        "name, or a forged Host header is believed.",
        "Set ALLOWED_HOSTS to the names by which clients and people reach the API.",
        lambda it: (
            "*" in it.values["ALLOWED_HOSTS"]
            or ",".join(it.values["ALLOWED_HOSTS"]) == VARIABLES["ALLOWED_HOSTS"].default
        ),
    ),
    Rule(
        "chronos.E006",
        "HTTPS is off: passwords and session cookies of the admin go over plain HTTP.",
        "Put a proxy that speaks TLS and sets X-Forwarded-Proto in front, and set HTTPS=true. That "
        "settles Django's security.W004, W008, W012 and W016 too.",
        lambda it: not it.values["HTTPS"],
    ),
    Rule(
        "chronos.E007",
        "MongoDB is on another host and spoken to without TLS.",
        "Add tls=true and tlsCAFile to MONGO_URI.",
        lambda it: not are_here(it.mongo.hosts) and not it.mongo.is_encrypted,
    ),
    Rule(
        "chronos.E008",
        "MongoDB's certificate is not checked.",
        "Remove tlsInsecure and tlsAllowInvalid… from MONGO_URI; name the authority by tlsCAFile.",
        _skips_mongo_checks,
    ),
    Rule(
        "chronos.E009",
        "MongoDB is on another host and MONGO_URI names no user.",
        "Give MongoDB users, and put user, password and authSource into MONGO_URI.",
        _mongo_knows_no_user,
    ),
    Rule(
        "chronos.E010",
        "Kafka is on another host and spoken to without TLS.",
        "Set KAFKA_SECURITY_PROTOCOL to SASL_SSL, or to SSL with a certificate.",
        lambda it: (
            it.is_elsewhere(it.config.broker.brokers) and not it.config.broker.security.is_encrypted
        ),
    ),
    Rule(
        "chronos.E011",
        "Kafka is on another host and this client has neither user nor certificate.",
        "Set KAFKA_SASL_USERNAME with its mechanism and password, or KAFKA_SSL_CERT and its key.",
        lambda it: (
            it.is_elsewhere(it.config.broker.brokers)
            and not it.config.broker.security.is_authenticated
        ),
    ),
    Rule(
        "chronos.E012",
        "etcd or Redis is on another host and spoken to without TLS.",
        "Set ETCD_TLS_CA; with Redis let REDIS_URL begin with rediss://.",
        _is_elected_in_the_clear,
    ),
    Rule(
        "chronos.E013",
        "etcd or Redis is on another host and this client has neither user nor certificate.",
        "Set ETCD_USERNAME and ETCD_PASSWORD, or ETCD_TLS_CERT and its key; with Redis put the "
        "password into REDIS_URL.",
        _is_elected_by_nobody,
    ),
    Rule(
        "chronos.E014",
        "Redis's certificate is not checked.",
        "Remove ssl_cert_reqs and ssl_check_hostname from REDIS_URL; name the authority by "
        "ssl_ca_certs.",
        lambda it: (
            it.elects_by_redis
            and (
                it.redis.options.get("ssl_cert_reqs", "required") != "required"
                or it.redis.options.get("ssl_check_hostname", "true").lower() != "true"
            )
        ),
    ),
    Rule(
        "chronos.E015",
        "DELIVERY_ALLOWED_NETWORKS contains every address: whoever may submit a job may reach "
        "everything that an executor can.",
        "Name the networks of your targets only.",
        _allows_everything,
    ),
    Rule(
        "chronos.E016",
        "A password in MONGO_URI, KAFKA_SASL_PASSWORD, ETCD_PASSWORD or REDIS_URL is one of an "
        "example, the user's name, or among those that are tried first.",
        "Give the user of that server a random password, such as openssl rand -hex 32 prints.",
        lambda it: has_placeholder(it.config),
    ),
    Rule(
        "chronos.E017",
        "One of ENCRYPTION_KEYS can be guessed: it has hardly any different characters.",
        "Make a Fernet key at random, put it first, and run resealsecrets before you drop the old.",
        lambda it: any(
            len(set(key)) < _FEWEST_IN_FERNET_KEY for key in it.config.delivery.encryption_keys
        ),
    ),
    Rule(
        "chronos.W001",
        "API_HOST is open to other machines: the API asks nobody who they are.",
        "Let nothing but an authenticating gateway reach API_PORT, and silence this with a reason.",
        lambda it: _is_open(it.config.listen.api_host),
    ),
    Rule(
        "chronos.W002",
        "METRICS_HOST is open to other machines: metrics name job types and processes.",
        "Let nothing but Prometheus and the supervisor's probes reach METRICS_PORT, and silence "
        "this with a reason.",
        lambda it: _is_open(it.config.listen.metrics_host),
    ),
    Rule(
        "chronos.W003",
        "DELIVERY_ALLOWED_NETWORKS contains this machine, or an address where a cloud tells a "
        "machine its credentials.",
        "Leave out 127.0.0.0/8, ::1, 169.254.0.0/16, fe80::/10, 100.100.100.200, 168.63.129.16, "
        "192.0.0.192, fd00:ec2::/32, fd20:ce::254 and fd00:c1::a9fe:a9fe: name smaller networks.",
        _allows_sensitive,
    ),
    Rule(
        "chronos.W004",
        "ENCRYPTION_KEYS is not set: no definition or job can have a secret.",
        "Set ENCRYPTION_KEYS to a Fernet key, the same for API and executors.",
        lambda it: not it.config.delivery.encryption_keys,
    ),
    Rule(
        "chronos.W005",
        "KAFKA_REPLICATION is 1: a broker that is lost takes its share of the wake-ups along, and "
        "nobody can publish to it.",
        "Set KAFKA_REPLICATION to 3 before the first migrate; give topics that exist more replicas "
        "with Kafka's tools.",
        lambda it: it.config.broker.replication == 1,
    ),
    Rule(
        "chronos.W006",
        "MONGO_URI asks for a weak write concern: accounts and sessions may be lost with a primary "
        "(jobs are always written with the majority).",
        "Remove w, or set w=majority.",
        lambda it: it.mongo.options.get("w", "majority") != "majority",
    ),
    Rule(
        "chronos.W007",
        "RETENTION_COMPLETED or RETENTION_EXECUTIONS is unset: the database grows without end, and "
        "payloads are kept for ever.",
        "Set both, to longer than clients repeat requests.",
        _keeps_for_ever,
    ),
)


def check_installation(**_: Any) -> list[CheckMessage]:
    """Say what must not be so in production."""
    it = Installation(
        settings.ENV, settings.CHRONOS, Path(settings.BASE_DIR, settings.ENV["DEVSTACK_DIR"])
    )
    return [rule.message() for rule in RULES if rule.is_broken(it)]
