"""Certificates whose time is over or has not come, on either side: who says what, and goes on."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from pymongo import MongoClient

from chronos_site.config import ElectionConfig, StoreConfig
from jobs.broker.topics import ping
from jobs.errors import BrokerUnavailable, StoreUnavailable
from jobs.repository import Repository
from scheduler.leadership.elector import Unanswered, uptime
from scheduler.leadership.gateway import Gateway
from tests.e2e.test_tls import Secured, role_env, secured
from tests.processes import RoleProcess
from tests.roles.candidates import Campaigns, term_of
from tests.secured import DAY
from tests.targets import Target
from tests.waiting import wait_for

__all__ = ["role_env", "secured"]

SAID: Final = {"expired": "has expired, on ", "future": "is not valid before "}
LIFETIME: Final = timedelta(seconds=10)
"""Of a certificate that ends while its server shows it."""


def ask_etcd(secured: Secured, **files: str) -> None:
    """One call that needs an answer."""
    gateway = Gateway((secured.etcd.address,), replace(secured.etcd_security, **files))
    gateway.call("/v3/lease/grant", {"TTL": 5}, deadline=uptime() + 10)


@pytest.fixture
def repository_for() -> Iterator[Callable[[str], Repository]]:
    """A repository whose client is made anew."""
    made: list[Repository] = []

    def connect(uri: str) -> Repository:
        made.append(Repository.connect(StoreConfig(uri, "chronos")))
        return made[-1]

    yield connect
    for each in made:
        each.close()


@pytest.mark.parametrize("when", SAID)
def test_a_client_whose_own_certificate_is_refused_for_its_dates_says_so(
    secured: Secured, repository_for: Callable[[str], Repository], when: str
) -> None:
    cert, key, both = map(str, secured.certificates.untimely(when))
    uri = secured.mongod.location.replace(str(secured.certificates.both), both)

    with pytest.raises(StoreUnavailable) as mongodb:
        repository_for(uri).ping()
    with pytest.raises(BrokerUnavailable) as kafka:
        ping(secured.broker(cert=cert, key=key))
    with pytest.raises(Unanswered) as etcd:
        ask_etcd(secured, cert=cert, key=key)

    for said, server, file in (
        (mongodb, "MongoDB", both),
        (kafka, "Kafka", cert),
        (etcd, "etcd", cert),
    ):
        assert str(said.value).startswith(server)
        assert f"The certificate in {file} {SAID[when]}" in str(said.value)


@contextmanager
def ending(secured: Secured) -> Iterator[None]:
    """MongoDB and etcd show a certificate that has just ended; then one that is good again.

    etcd reads its files at each handshake. MongoDB does when it is told to, and would not take one
    that has ended already.
    """
    files, now = secured.certificates, datetime.now(UTC)
    last = files.issue("last", "127.0.0.1", not_before=now - DAY, not_after=now + LIFETIME)
    ours = (files.server_cert, files.server_key, files.server_both)
    kept = {file: file.read_bytes() for file in ours}
    client: MongoClient[dict[str, Any]] = MongoClient(secured.mongod.location)
    with client:
        try:
            for file, other in zip(ours, last, strict=True):
                shutil.copyfile(other, file)
            client.admin.command("rotateCertificates", 1)
            wait_for(lambda: datetime.now(UTC) > now + LIFETIME, deadline=6 * LIFETIME)
            yield
        finally:
            for file, content in kept.items():
                file.write_bytes(content)
            client.admin.command("rotateCertificates", 1)


def test_roles_wait_for_servers_whose_certificate_has_ended(
    secured: Secured,
    start_role: Callable[..., RoleProcess],
    repository_for: Callable[[str], Repository],
) -> None:
    with ending(secured):
        with pytest.raises(StoreUnavailable, match=r"^MongoDB .*certificate has expired"):
            repository_for(secured.mongod.location).ping()
        with pytest.raises(Unanswered, match=r"^etcd .*certificate has expired"):
            ask_etcd(secured)
        role = start_role("runexecutor")
        assert "MongoDB does not answer" in role.wait_for_line("certificate has expired")

    # Renewed: who waited goes on by itself.
    role.wait_ready()
    assert "Traceback" not in role.output
    assert role.terminate() == 0


@pytest.mark.parametrize("when", SAID)
def test_who_does_not_trust_a_broker_is_told_to_look_at_its_dates(
    secured: Secured, when: str
) -> None:
    # The client does not get any further than this with a real broker, and it does not say why.
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*secured.certificates.untimely(f"server-{when}")[:2])
    broker = Target(lambda connection, arrived: None, tls=context)

    with pytest.raises(BrokerUnavailable) as refused:
        ping(replace(secured.broker(), brokers=(f"127.0.0.1:{broker.port}",)))

    broker.close()
    assert str(refused.value).startswith("Kafka refuses this client (")
    assert "certificate" in str(refused.value).partition(")")[0]
    assert "and the name and dates of the broker's certificate" in str(refused.value)


def test_a_candidate_waits_for_an_etcd_whose_certificate_is_not_valid_yet(
    secured: Secured,
) -> None:
    files = secured.certificates
    kept = {file: file.read_bytes() for file in (files.server_cert, files.server_key)}
    config = ElectionConfig(
        "etcd", (secured.etcd.address,), database="early", security=secured.etcd_security
    )
    with Campaigns(config) as campaigns:
        try:
            for file, other in zip(kept, files.untimely("server-future")[:2], strict=True):
                shutil.copyfile(other, file)
            waiting = campaigns.stand()
            with pytest.raises(Unanswered, match=r"^etcd .*certificate is not yet valid"):
                ask_etcd(secured)
            assert not waiting.done()
        finally:
            for file, content in kept.items():
                file.write_bytes(content)

        assert wait_for(waiting.done)
        assert term_of(waiting).is_valid()
