"""What docker-compose.yml runs beside Chronos, on real servers: commands, health checks, a script.

The images are not here, their programs are: of other versions where deploy/README.md says so.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from redis import Redis as Client
from redis.exceptions import RedisError

from chronos_site import env
from chronos_site.config import StoreConfig
from devstack.etcd import Etcd
from devstack.kafka import Kafka
from devstack.mongo import Mongod
from devstack.process import free_port
from devstack.redis import Redis
from devstack.server import Server
from jobs.repository import Repository
from tests.deploy.compose import ROOT, load, processes, settings_of
from tests.deploy.mongo_shell import run_script

COMPOSE: Final = load(settings_of())
SERVICES: Final = COMPOSE["services"]
SCRIPT: Final = (ROOT / "deploy/compose/initiate.js").read_text()


def replaced(text: str, by: Mapping[str, str]) -> str:
    for old, new in by.items():
        text = text.replace(old, new)
    return text


class ComposeEtcd(Etcd):
    """etcd with the arguments of the file; its addresses and its folder are the test's."""

    def command(self) -> list[str]:
        program, *_ = super().command()
        image_program, *arguments = SERVICES["etcd"]["command"]
        assert Path(image_program).name == "etcd"
        ours = {
            "/var/lib/etcd": str(self.directory),
            "0.0.0.0:2379": self.address,
            "etcd:2379": self.address,
            "127.0.0.1:2380": f"127.0.0.1:{self._peers}",
        }
        return [program, *(replaced(each, ours) for each in arguments)]

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._peers = free_port()


class ComposeRedis(Redis):
    """Redis by the command of the file, on a port of the test's."""

    def command(self) -> list[str]:
        program, *_ = super().command()
        shell, option, line = SERVICES["redis"]["command"]
        place = f"{program} --port {self.port} --bind 127.0.0.1 --dir {self.directory}"
        password = SERVICES["redis"]["environment"]["REDISCLI_AUTH"]
        return [
            *("/usr/bin/env", f"REDISCLI_AUTH={password}"),
            *(shell, option, line.replace("redis-server", place)),
        ]

    def answers(self) -> bool:
        return self.answers_to(SERVICES["redis"]["environment"]["REDISCLI_AUTH"])

    def answers_to(self, password: str) -> bool:
        """As redis-cli would find it, which not every wheel has."""
        with Client(port=self.port, password=password) as client:
            try:
                return bool(client.ping())
            except RedisError:
                return False


class ComposeMongod(Mongod):
    """MongoDB as its image starts it: once without users to make the administrator, then with."""

    has_users = False

    def command(self) -> list[str]:
        command = super().command()
        if not self.has_users:
            return [each for each in command if not each.startswith("--replSet")]
        key_file = self.directory / "members.key"
        key_file.write_text("between+members/" * 4)
        key_file.chmod(0o400)
        return [*command, f"--keyFile={key_file}"]

    def answers(self) -> bool:
        ready, _ = run_script(mongosh_line(), self.address, {})
        return ready == 0

    def make_administrator(self) -> None:
        values = SERVICES["mongo"]["environment"]
        with MongoClient[dict[str, Any]](self.address) as client:
            client.admin.command(
                "createUser",
                values["MONGO_INITDB_ROOT_USERNAME"],
                pwd=values["MONGO_INITDB_ROOT_PASSWORD"],
                roles=["root"],
            )
        self.stop()
        self.has_users = True
        self.start()
        self.wait_ready()


def mongosh_line() -> str:
    """What MongoDB's health check has mongosh evaluate."""
    *program, line = SERVICES["mongo"]["healthcheck"]["test"]
    assert program == ["CMD", "env", "HOME=/tmp", "mongosh", "--quiet", "--eval"]
    return str(line)


def is_healthy(service: str, ours: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether a service's health check passes.

    Args:
        service: its name in the file.
        ours: what stands where in the check of the image something else does.
        environment: of the check.
    """
    kind, *command = SERVICES[service]["healthcheck"]["test"]
    assert kind == "CMD"
    done = subprocess.run(
        [replaced(each, ours) for each in command],
        env={**env.for_child(), **environment},
        check=False,
        capture_output=True,
    )
    return done.returncode == 0


@pytest.fixture
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server of the class that the test names."""
    server: Server = request.param(tmp_path)
    server.start()
    try:
        server.wait_ready()
        yield server
    finally:
        server.kill()


def test_kafkas_health_check_asks_the_broker(kafka_server: Kafka) -> None:
    def is_answered(port: int) -> bool:
        return is_healthy("kafka", {"127.0.0.1/9092": f"127.0.0.1/{port}"}, {})

    assert is_answered(kafka_server.port)
    assert not is_answered(free_port())


def test_kafkas_health_check_is_not_content_with_another_answer(etcd_server: Etcd) -> None:
    assert not is_healthy("kafka", {"127.0.0.1/9092": f"127.0.0.1/{etcd_server.port}"}, {})


@pytest.mark.parametrize("running", [ComposeEtcd], indirect=True)
def test_etcd_takes_its_arguments_and_its_health_check_asks_it(running: ComposeEtcd) -> None:
    ours = {"/usr/local/bin/etcdctl": str(Path(running.command()[0]).with_name("etcdctl"))}

    assert is_healthy("etcd", ours, {"ETCDCTL_ENDPOINTS": running.address})
    assert not is_healthy("etcd", ours, {"ETCDCTL_ENDPOINTS": f"127.0.0.1:{free_port()}"})


@pytest.mark.parametrize("running", [ComposeRedis], indirect=True)
def test_redis_wants_the_password_that_its_health_check_has(running: ComposeRedis) -> None:
    assert SERVICES["redis"]["healthcheck"]["test"] == [
        *("CMD-SHELL", "redis-cli ping | grep -q PONG")
    ]
    assert not running.answers_to("another")


@pytest.mark.parametrize("running", [ComposeMongod], indirect=True)
def test_the_script_makes_a_replica_set_and_a_user_who_may_do_what_chronos_does(
    running: ComposeMongod,
) -> None:
    running.make_administrator()
    values = dict(SERVICES["mongo-initiate"]["environment"])
    assert "mongo:27017" in SCRIPT
    script = SCRIPT.replace("mongo:27017", running.address)

    assert run_script(script, running.address, values)[0] == 0
    assert run_script(script, running.address, values | {"MONGO_PASSWORD": "another"})[0] == 0
    # The password of .env counts, whatever it was.
    status, words = run_script(script, running.address, values)

    assert (status, words.strip()) == (0, "The replica set has a primary, and Chronos its user.")
    given = env.read(processes(COMPOSE)["reaper"].environment)
    uri = given["MONGO_URI"].replace("mongo:27017", running.address)
    repository = Repository.connect(StoreConfig(uri, given["MONGO_DB"]))
    try:
        repository.ensure_indexes()
    finally:
        repository.close()
    with MongoClient[dict[str, Any]](uri) as client:
        assert client[given["MONGO_DB"]]["things"].insert_one({}).acknowledged
        # For doctor.
        assert client.admin.command("replSetGetStatus")["set"] == "rs0"
        with pytest.raises(OperationFailure, match="not authorized"):
            client["another"]["things"].insert_one({})
