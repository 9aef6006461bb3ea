"""A stack in which every connection is encrypted and every client has a name, and what is said to
those that come without.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from django.conf import settings

from chronos_site.config import BrokerConfig, ElectionConfig, StoreConfig
from chronos_site.transport import EtcdSecurity, KafkaSecurity
from devstack.process import free_port
from devstack.server import Server, stop_all
from jobs.broker.topics import ensure_topics, ping
from jobs.errors import BrokerUnavailable, ConfigError, ElectionUnavailable, StoreUnavailable
from jobs.repository import Repository
from scheduler.leadership import elector_for
from tests.processes import RoleProcess
from tests.roles.candidates import Campaigns, term_of
from tests.secured import (
    PASSWORD,
    TOKEN_TTL,
    USER,
    Certificates,
    SecuredEtcd,
    SecuredKafka,
    SecuredMongod,
)
from tests.waiting import ANSWER_SECONDS, wait_for

WRONG: Final = "wrong-word"


@dataclass(frozen=True)
class Secured:
    """The three servers, who they know, and an authority that they have never heard of."""

    mongod: SecuredMongod
    kafka: SecuredKafka
    etcd: SecuredEtcd
    certificates: Certificates
    strangers: Certificates

    @property
    def kafka_security(self) -> KafkaSecurity:
        files = self.certificates
        return KafkaSecurity(
            *("SASL_SSL", "SCRAM-SHA-512", USER, PASSWORD),
            *(str(files.ca), str(files.cert), str(files.key)),
        )

    def broker(self, **changes: Any) -> BrokerConfig:
        """For a client that is set up right but for these changes."""
        return BrokerConfig((self.kafka.address,), security=replace(self.kafka_security, **changes))

    @property
    def etcd_security(self) -> EtcdSecurity:
        files = self.certificates
        return EtcdSecurity(str(files.ca), str(files.cert), str(files.key), USER, PASSWORD)

    @property
    def environment(self) -> dict[str, str]:
        files = self.certificates
        return {
            "DJANGO_SETTINGS_MODULE": "tests.project.settings",
            "LOG_FORMAT": "text",
            "MONGO_URI": self.mongod.location,
            "KAFKA_BROKERS": self.kafka.address,
            "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
            "KAFKA_SASL_USERNAME": USER,
            "KAFKA_SASL_PASSWORD": PASSWORD,
            "KAFKA_SSL_CA": str(files.ca),
            "KAFKA_SSL_CERT": str(files.cert),
            "KAFKA_SSL_KEY": str(files.key),
            "ETCD_ENDPOINTS": self.etcd.address,
            "ETCD_TLS_CA": str(files.ca),
            "ETCD_TLS_CERT": str(files.cert),
            "ETCD_TLS_KEY": str(files.key),
            "ETCD_USERNAME": USER,
            "ETCD_PASSWORD": PASSWORD,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Started, with their users, the indexes and the topics."""
    directory = tmp_path_factory.mktemp("secured")
    files, programs = Certificates(directory / "certificates"), settings.ENV
    stack = Secured(
        SecuredMongod(directory / "mongod", files, binary=programs["MONGOD_BIN"]),
        SecuredKafka(
            directory / "kafka",
            files,
            home=programs["KAFKA_HOME"],
            java_home=programs["JAVA_HOME"],
        ),
        SecuredEtcd(directory / "etcd", files, binary=programs["ETCD_BIN"]),
        files,
        Certificates(directory / "strangers"),
    )
    servers = (stack.kafka, stack.mongod, stack.etcd)
    started: list[Server] = []
    try:
        for server in servers:
            server.start()
            started.append(server)
        for server in servers:
            server.wait_ready()
            server.add_user()
        migrated = RoleProcess("migrate", "--verbosity=0", environment=stack.environment)
        assert migrated.wait() == 0, migrated.output
        yield stack
    finally:
        stop_all(started)


@pytest.fixture
def role_env(secured: Secured) -> dict[str, str]:
    """What `start_role` starts with: nothing of the stack that the other tests share."""
    return {**secured.environment, "API_PORT": str(free_port())}


def test_jobs_run_from_the_request_to_their_end(
    secured: Secured,
    start_role: Callable[..., RoleProcess],
    role_env: dict[str, str],
    tmp_path: Path,
) -> None:
    ensure_topics(secured.broker(), ["news"])
    # Only a change stream wakes this scheduler in time.
    scheduler = start_role("runscheduler", SCHEDULER_TICK="1h", LEADER_TTL="2s")
    others = [start_role(name) for name in ("runapi", "runexecutor", "runreaper")]
    for role in (scheduler, *others):
        role.wait_ready()
    wait_for(lambda: scheduler.get("/readyz")[1].startswith("leader"))
    api = f"http://127.0.0.1:{role_env['API_PORT']}"

    now = datetime.now(UTC).isoformat()
    submitted = [
        httpx.post(
            f"{api}/jobs",
            json={"tenantId": "acme", "scheduledAt": now, "idempotencyKey": job["jobType"], **job},
            trust_env=False,
            timeout=ANSWER_SECONDS,
        ).json()
        for job in (
            {"jobType": "test-record", "payload": {"file": str(tmp_path / "record")}},
            {"jobType": "kafka", "delivery": {"topic": "news"}},
        )
    ]

    def status(job: dict[str, str]) -> str:
        answer = httpx.get(f"{api}/jobs/{job['id']}", trust_env=False, timeout=ANSWER_SECONDS)
        return str(answer.json()["status"])

    wait_for(
        lambda: [status(job) for job in submitted] == ["completed", "completed"],
        show=lambda: [json.dumps(submitted), scheduler.output, *(o.output for o in others)],
    )
    assert (tmp_path / "record").exists()
    # While the roles live: it sees them, the members and their clocks. A role whose reports are
    # late on a busy machine counts as dead.
    asked: list[RoleProcess] = []

    def finds_nothing_wrong() -> bool:
        asked.append(start_role("doctor"))
        return asked[-1].wait() == 0

    wait_for(finds_nothing_wrong, show=lambda: asked[-1].output)
    doctor = asked[-1]
    assert "no field that Chronos does not know" in doctor.output
    assert "lacks the right" not in doctor.output
    assert PASSWORD not in doctor.output
    for role in (scheduler, *others):
        assert role.terminate() == 0, role.output
        assert PASSWORD not in role.output


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        (lambda s: s.mongod.uri(password=WRONG), "MongoDB refuses this client (Authentication"),
        (lambda s: s.mongod.uri(ca=s.strangers.ca), "certificate verify failed"),
        (lambda s: s.mongod.uri(tls=False), "what hangs up may demand tls=true"),
    ],
    ids=["password", "authority", "plaintext"],
)
def test_mongodb_tells_why_a_client_does_not_get_in(
    secured: Secured, uri: Callable[[Secured], str], sentence: str
) -> None:
    repository = Repository.connect(StoreConfig(uri(secured), "chronos"))

    with pytest.raises(StoreUnavailable) as refused:
        repository.ping()

    repository.close()
    assert sentence in str(refused.value)
    assert "MONGO_URI" in str(refused.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s: {"password": "wrong"}, "Check KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME"),
        (lambda s: {"mechanism": "SCRAM-SHA-256"}, "Unsupported SASL mechanism"),
        (lambda s: {"ca": str(s.strangers.ca)}, "certificate could not be verified"),
        (lambda s: {"cert": None, "key": None}, "certificate required"),
        (
            lambda s: {"protocol": "SASL_PLAINTEXT", "ca": None, "cert": None, "key": None},
            "hangs up: it may demand TLS",
        ),
    ],
    ids=["password", "mechanism", "authority", "no certificate", "plaintext"],
)
def test_kafka_tells_why_a_client_does_not_get_in(
    secured: Secured, change: Callable[[Secured], dict[str, Any]], sentence: str
) -> None:
    with pytest.raises(BrokerUnavailable) as refused:
        ping(secured.broker(**change(secured)))

    assert sentence in str(refused.value)
    assert PASSWORD not in str(refused.value)


def test_a_key_that_does_not_fit_its_certificate_is_said_before_anything_is_sent(
    secured: Secured,
) -> None:
    with pytest.raises(ConfigError, match="key values mismatch"):
        ping(secured.broker(key=str(secured.strangers.key)))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s: {"password": WRONG}, "invalid user ID or password. Check ETCD_USERNAME"),
        (lambda s: {"username": None, "password": None}, "permission denied. Check ETCD_USERNA"),
        (
            lambda s: {
                "cert": str(s.certificates.named_cert),
                "key": str(s.certificates.named_key),
            },
            "CommonName of client sending a request against gateway will be ignored",
        ),
    ],
    ids=["password", "nobody", "certificate with a name"],
)
def test_etcd_tells_why_a_candidate_does_not_get_in(
    secured: Secured, change: Callable[[Secured], dict[str, Any]], sentence: str
) -> None:
    security = replace(secured.etcd_security, **change(secured))
    elector = elector_for(ElectionConfig("etcd", (secured.etcd.address,), security=security), "one")

    with pytest.raises(ElectionUnavailable) as refused:
        elector.campaign(threading.Event())

    assert sentence in str(refused.value)


def test_a_standby_leads_although_its_token_ran_out_while_it_waited(secured: Secured) -> None:
    config = ElectionConfig(
        "etcd",
        (secured.etcd.address,),
        database="tokens",
        security=secured.etcd_security,
    )
    leader = elector_for(config, "one").campaign(threading.Event())
    assert leader is not None

    with Campaigns(config) as campaigns:
        waiting = campaigns.stand("two")
        # Beyond the two seconds after which this etcd forgets a token.
        assert not leader.lost.wait(TOKEN_TTL.total_seconds() * 2)
        assert not waiting.done()
        leader.resign()

        assert term_of(waiting).number > leader.number


def test_a_role_that_is_refused_says_so_without_a_traceback(
    secured: Secured, start_role: Callable[..., RoleProcess]
) -> None:
    wrong_password = {"MONGO_URI": secured.mongod.uri(password=WRONG)}
    ending = [
        (start_role("migrate", **wrong_password), "MongoDB refuses this client"),
        (start_role("runapi", **wrong_password), "MongoDB refuses this client"),
        (
            start_role("runscheduler", ETCD_PASSWORD=WRONG),
            "Check ETCD_USERNAME, ETCD_PASSWORD and the user's rights",
        ),
    ]
    strange = str(secured.strangers.ca)
    waiting = [
        (start_role("runscheduler", ETCD_TLS_CA=strange), "certificate verify failed"),
        (start_role("runexecutor", KAFKA_SSL_CA=strange), "Check KAFKA_SECURITY_PROTOCOL"),
    ]

    for role, sentence in ending:
        assert role.wait() == 1
        assert sentence in role.output
    for role, sentence in waiting:
        role.wait_for_line(sentence)
    for role, _ in (*ending, *waiting):
        assert "Traceback" not in role.output, role.output
        assert WRONG not in role.output
