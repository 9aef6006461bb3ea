"""Certificates and keys that cannot be used: a sentence that names the setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chronos_site import env
from chronos_site.config import BrokerConfig, ElectionConfig, StoreConfig, config_from
from chronos_site.transport import EtcdSecurity, KafkaSecurity
from jobs.broker.cluster import Cluster
from jobs.broker.outbox import Outbox
from jobs.broker.publisher import Publisher
from jobs.broker.subscription import Subscription
from jobs.doctor.election import examine_etcd, examine_redis
from jobs.errors import ConfigError
from jobs.repository import Repository
from scheduler.leadership import elector_for
from tests.secured import Certificates

AWAY = "127.0.0.1:1"
"""Nobody listens there: what is said is said before anybody is asked."""


@dataclass(frozen=True)
class Files:
    """Of two authorities that know nothing of each other, and what is no certificate."""

    ours: Certificates
    theirs: Certificates
    junk: Path
    directory: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    directory = tmp_path_factory.mktemp("files")
    junk = directory / "junk.pem"
    junk.write_text("not a certificate")
    return Files(
        Certificates(directory / "ours"), Certificates(directory / "theirs"), junk, directory
    )


def of_authorities(files: Files) -> list[dict[str, Path]]:
    return [{"ca": files.junk}, {"ca": files.ours.key}]


def of_clients(files: Files) -> list[dict[str, Path]]:
    ours = files.ours
    return [
        {"ca": ours.ca, "cert": ours.cert, "key": files.theirs.key},
        {"ca": ours.ca, "cert": files.junk, "key": ours.key},
        {"ca": ours.ca, "cert": ours.cert, "key": files.junk},
    ]


@pytest.mark.parametrize(
    "client",
    [
        Cluster,
        lambda config: Publisher(config, "one"),
        lambda config: Outbox(config, "one", timeout=timedelta(seconds=1)),
        lambda config: Subscription(config, "noop", "one"),
    ],
    ids=["cluster", "publisher", "outbox", "subscription"],
)
def test_every_client_of_kafka_names_the_file(
    files: Files, client: Callable[[BrokerConfig], Any]
) -> None:
    for name, faults in (("CA", of_authorities), ("CERT", of_clients)):
        for fault in faults(files):
            security = KafkaSecurity("SSL", **{each: str(path) for each, path in fault.items()})
            with pytest.raises(ConfigError, match=rf"^KAFKA_SSL_{name} names '.*\.pem', which can"):
                client(BrokerConfig((AWAY,), security=security))


def electing(**changes: Any) -> ElectionConfig:
    return ElectionConfig("etcd", (AWAY,), **changes)


@pytest.mark.parametrize(
    "ask", [lambda config: elector_for(config, "one"), lambda config: list(examine_etcd(config))]
)
def test_the_scheduler_and_the_doctor_name_the_file_for_etcd(
    files: Files, ask: Callable[[ElectionConfig], Any]
) -> None:
    for name, faults in (("CA", of_authorities), ("CERT", of_clients)):
        for fault in faults(files):
            security = EtcdSecurity(**{each: str(path) for each, path in fault.items()})
            with pytest.raises(ConfigError, match=rf"^ETCD_TLS_{name} names '.*\.pem', which can"):
                ask(electing(security=security))


@pytest.mark.parametrize("ask", ["scheduler", "doctor"])
@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("ssl_ca_certs=/no/ca.pem", "ssl_ca_certs in REDIS_URL names '/no/ca.pem', which is no"),
        ("ssl_ca_certs={0.directory}", "ssl_ca_certs in REDIS_URL names '.*', which is no file"),
        ("ssl_ca_certs={0.junk}", "ssl_ca_certs in REDIS_URL names '.*', which cannot be used"),
        (
            "ssl_certfile={0.ours.cert}&ssl_keyfile={0.theirs.key}",
            "ssl_certfile in REDIS_URL names '.*key values mismatch",
        ),
    ],
)
def test_the_scheduler_and_the_doctor_name_the_file_for_redis(
    files: Files, query: str, sentence: str, ask: str
) -> None:
    url = f"rediss://:hidden-word@{AWAY}/0?{query.format(files)}"
    config = ElectionConfig("redis", (), redis_url=url)

    with pytest.raises(ConfigError, match=sentence) as refused:
        list(examine_redis(config)) if ask == "doctor" else elector_for(config, "one")

    assert "hidden-word" not in str(refused.value)


@pytest.mark.parametrize("option", ["tlsCAFile", "tlsCertificateKeyFile", "tlsCRLFile"])
def test_a_file_for_mongodb_that_is_none_is_said_with_the_setting(
    files: Files, option: str
) -> None:
    config = StoreConfig(f"mongodb://u:hidden-word@{AWAY}/?tls=true&{option}={files.junk}", "x")

    with pytest.raises(ConfigError, match=r"^MONGO_URI cannot be used: .*(PEM|certificate)") as no:
        Repository.connect(config)

    assert "hidden-word" not in str(no.value)


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("KAFKA_SSL_CA", {"KAFKA_SECURITY_PROTOCOL": "SSL"}),
        ("KAFKA_SSL_KEY", {"KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_SSL_CERT": __file__}),
        ("ETCD_TLS_CA", {}),
        ("ETCD_TLS_KEY", {"ETCD_TLS_CA": __file__, "ETCD_TLS_CERT": __file__}),
    ],
)
def test_a_directory_is_no_file(name: str, others: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^{name} names '{tmp_path}', which is no file"):
        config_from(env.read({**others, name: str(tmp_path)}))


def test_an_address_of_redis_with_options_that_there_are_not_is_said_by_the_doctor() -> None:
    for query in ("nonsense=1", "socket_timeout=soon"):
        url = f"redis://:hidden-word@{AWAY}/0?{query}"

        [finding] = examine_redis(ElectionConfig("redis", (), redis_url=url))

        assert finding.text == (
            "REDIS_URL has an option that there is not, or a value that it cannot have"
        )
