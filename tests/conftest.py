"""The real servers, started once for the whole run, and what roles need to use them."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import hypothesis
import pytest
from django.conf import settings
from pymongo import MongoClient

from chronos_site.config import BrokerConfig, Config, ElectionConfig, StoreConfig
from devstack.etcd import Etcd
from devstack.kafka import Kafka
from devstack.mongo import Mongod
from devstack.redis import Redis
from devstack.server import Server, stop_all
from jobs.repository import Repository
from tests.processes import RoleProcess, environment_for
from tests.waiting import ANSWER_SECONDS

AnyServer = TypeVar("AnyServer", bound=Server)

# The same examples in each run, and for each as much time as the machine takes. Examples that
# nobody has seen yet: `--hypothesis-profile exploring`.
_UNMINDED = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture]
hypothesis.settings.register_profile("exploring", deadline=None, suppress_health_check=_UNMINDED)
hypothesis.settings.register_profile(
    "repeatable", hypothesis.settings.get_profile("exploring"), derandomize=True
)
hypothesis.settings.load_profile("repeatable")


def _mongod(directory: Path) -> Mongod:
    return Mongod(directory, binary=settings.ENV["MONGOD_BIN"], cache_gb=0.5)


def _kafka(directory: Path) -> Kafka:
    return Kafka(directory, home=settings.ENV["KAFKA_HOME"], java_home=settings.ENV["JAVA_HOME"])


def _etcd(directory: Path) -> Etcd:
    return Etcd(directory, binary=settings.ENV["ETCD_BIN"])


def _redis(directory: Path) -> Redis:
    return Redis(directory, binary=settings.ENV["REDIS_BIN"])


@dataclass(frozen=True)
class Servers:
    """The servers of the run."""

    mongod: Mongod
    kafka: Kafka
    etcd: Etcd


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """All three, started side by side; `mongo_server` and its like wait until one answers."""
    directory = tmp_path_factory.mktemp("servers")
    three = Servers(
        _mongod(directory / "mongod"), _kafka(directory / "kafka"), _etcd(directory / "etcd")
    )
    started: list[Server] = []
    try:
        for server in (three.kafka, three.mongod, three.etcd):
            server.start()
            started.append(server)
        yield three
    finally:
        stop_all(started)
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def mongo_server(servers: Servers) -> Mongod:
    servers.mongod.wait_ready()
    client: MongoClient[dict[str, Any]] = MongoClient(servers.mongod.location)
    with client:
        # Once a minute it would delete what tests date to the past that they live in.
        client.admin.command("setParameter", ttlMonitorEnabled=False)
        # What a process holds that was killed within a transaction, else for up to 90 s.
        client.admin.command("setParameter", transactionLifetimeLimitSeconds=20)
    return servers.mongod


@pytest.fixture(scope="session")
def kafka_server(servers: Servers) -> Kafka:
    servers.kafka.wait_ready()
    return servers.kafka


@pytest.fixture(scope="session")
def etcd_server(servers: Servers) -> Etcd:
    servers.etcd.wait_ready()
    return servers.etcd


def _factory(
    make: Callable[[Path], AnyServer], directory: Path
) -> Iterator[Callable[[], AnyServer]]:
    made: list[AnyServer] = []

    def start() -> AnyServer:
        server = make(directory / f"{make.__name__}{len(made)}")
        made.append(server)
        server.start()
        server.wait_ready()
        return server

    yield start
    for server in made:
        server.kill()
        shutil.rmtree(server.directory)


@pytest.fixture
def private_mongod(tmp_path: Path) -> Iterator[Callable[[], Mongod]]:
    """Starts a mongod that the test may stop and kill. The same for those below."""
    yield from _factory(_mongod, tmp_path)


@pytest.fixture
def private_kafka(tmp_path: Path) -> Iterator[Callable[[], Kafka]]:
    yield from _factory(_kafka, tmp_path)


@pytest.fixture
def private_etcd(tmp_path: Path) -> Iterator[Callable[[], Etcd]]:
    yield from _factory(_etcd, tmp_path)


@pytest.fixture
def private_redis(tmp_path: Path) -> Iterator[Callable[[], Redis]]:
    yield from _factory(_redis, tmp_path)


@pytest.fixture
def store_config(mongo_server: Mongod) -> Iterator[StoreConfig]:
    """A database of the test's own, dropped afterwards."""
    config = StoreConfig(mongo_server.location, f"test_{uuid4().hex}")
    yield config
    client: MongoClient[dict[str, Any]] = MongoClient(config.uri)
    with client:
        client.drop_database(config.database)


@pytest.fixture
def repo(store_config: StoreConfig) -> Iterator[Repository]:
    """The repository on that database, indexes included."""
    repository = Repository.connect(store_config)
    repository.ensure_indexes()
    yield repository
    repository.close()


@pytest.fixture
def broker_config(kafka_server: Kafka) -> BrokerConfig:
    """Topics are shared by all tests: use a job type of your own where that matters."""
    return BrokerConfig((kafka_server.address,))


@pytest.fixture
def election_config(etcd_server: Etcd) -> Iterator[ElectionConfig]:
    """Afterwards nobody leads, also not by the lease of a candidate that was killed."""
    yield ElectionConfig("etcd", (etcd_server.address,))
    every_key = base64.b64encode(b"\0").decode()
    httpx.post(
        f"http://{etcd_server.address}/v3/kv/deleterange",
        json={"key": every_key, "range_end": every_key},
        trust_env=False,
        timeout=ANSWER_SECONDS,
    ).raise_for_status()


@pytest.fixture
def chronos_config(
    store_config: StoreConfig, broker_config: BrokerConfig, election_config: ElectionConfig
) -> Config:
    """What `settings.CHRONOS` would be with the test's database and the run's servers."""
    config: Config = settings.CHRONOS
    return replace(config, store=store_config, broker=broker_config, election=election_config)


@pytest.fixture
def role_env(repo: Repository, chronos_config: Config) -> dict[str, str]:
    """The environment of roles that run as processes: see `start_role`."""
    return environment_for(
        chronos_config.store, chronos_config.broker, chronos_config.election.endpoints
    )


@pytest.fixture
def start_role(role_env: dict[str, str]) -> Iterator[Callable[..., RoleProcess]]:
    """Starts `manage.py` commands: `start_role("runreaper", REAPER_INTERVAL="1s")`.

    The database has its indexes; what a role needs besides is made by `manage.py migrate`. Whatever
    still runs when the test ends is killed.
    """
    started: list[RoleProcess] = []

    def start(*arguments: str, **variables: str) -> RoleProcess:
        role = RoleProcess(*arguments, environment=role_env | variables)
        started.append(role)
        return role

    yield start
    for role in started:
        role.clear()
