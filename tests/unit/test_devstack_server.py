"""What keeps a server from starting is said in one sentence that names the variable to set."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from chronos_site import env
from devstack.etcd import Etcd
from devstack.kafka import Kafka
from devstack.lock import only_one
from devstack.mongo import Mongod
from devstack.process import DevstackError, free_port
from devstack.redis import Redis
from devstack.server import Server
from devstack.stack import roles_to_start, servers_to_start
from devstack.terminal import COLOURS


def refusal(server: Server) -> str:
    with pytest.raises(DevstackError) as refused:
        server.start()
    assert not server.is_alive
    return str(refused.value)


@pytest.mark.parametrize("kind", [Mongod, Etcd, Redis, Kafka])
def test_a_port_in_use_is_named_with_both_ways_out(kind: type[Server], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        server = kind(tmp_path, listener.getsockname()[1])

        text = refusal(server)

    assert f"port {server.port} is in use" in text
    assert server.address_variable in text
    assert server.port_variable in text


@pytest.mark.parametrize(
    ("kind", "variable", "outside"),
    [
        (Mongod, "MONGOD_BIN", "MONGO_URI"),
        (Etcd, "ETCD_BIN", "ETCD_ENDPOINTS"),
        (Redis, "REDIS_BIN", "REDIS_URL"),
    ],
)
@pytest.mark.parametrize("content", [None, "not executable"])
def test_a_missing_program_is_named_with_both_ways_out(
    kind: type[Mongod | Etcd | Redis],
    variable: str,
    outside: str,
    content: str | None,
    tmp_path: Path,
) -> None:
    binary = tmp_path / "binary"
    if content is not None:
        binary.write_text(content)

    text = refusal(kind(tmp_path, binary=str(binary)))

    assert f"{variable}={binary} is no executable file" in text
    assert outside in text


def test_a_wheel_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devstack.programs.find_spec", lambda name: None)

    text = refusal(Mongod(tmp_path))

    assert "make setup" in text
    assert "MONGOD_BIN" in text
    assert "MONGO_URI" in text


def test_a_kafka_home_without_jars_is_named(tmp_path: Path) -> None:
    text = refusal(Kafka(tmp_path / "data", home=str(tmp_path)))

    assert f"KAFKA_HOME={tmp_path}" in text
    assert "KAFKA_BROKERS" in text


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    text = refusal(Kafka(tmp_path / "data", home=str(tmp_path), java_home=str(tmp_path)))

    assert f"JAVA_HOME={tmp_path}/bin/java is no executable file" in text


@pytest.mark.parametrize("kind", [Mongod, Etcd, Redis, Kafka])
def test_a_full_disk_is_named(
    kind: type[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "needed_bytes", 1 << 60)

    text = refusal(kind(tmp_path))

    assert "free space" in text
    assert "DEVSTACK_DIR" in text
    assert kind.address_variable in text


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    text = refusal(Etcd(tmp_path / "file" / "etcd"))

    assert "cannot be used (Not a directory)" in text
    assert "DEVSTACK_DIR" in text


def test_a_server_that_dies_shows_the_end_of_its_log(tmp_path: Path) -> None:
    binary = tmp_path / "etcd"
    binary.write_text("#!/bin/sh\necho the config is all wrong >&2\nexit 3\n")
    binary.chmod(0o755)
    server = Etcd(tmp_path / "etcd-data", binary=str(binary))

    server.start()
    with pytest.raises(DevstackError, match=r"(?s)exit code 3.*the config is all wrong"):
        server.wait_ready()


def test_fan_out_workers_are_started_where_they_dispatch() -> None:
    everywhere = roles_to_start(env.read({}))
    fanned_out = roles_to_start(env.read({"DISPATCH": "fanout"}))

    assert not {name for name, command in everywhere.items() if "runfanout" in command}
    assert fanned_out.keys() - everywhere.keys() == {"fanout-1", "fanout-2"}
    assert fanned_out.keys() <= COLOURS.keys()


def test_a_second_stack_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with (
        only_one(tmp_path),
        pytest.raises(DevstackError, match=r"already runs.*DEVSTACK_DIR"),
        only_one(tmp_path),
    ):
        pass

    with only_one(tmp_path):
        pass


@pytest.mark.parametrize("backend", ["etcd", "redis"])
def test_only_the_server_that_elects_the_leader_is_started(backend: str) -> None:
    values = env.read({"LEADER_BACKEND": backend})

    names = [server.name for server in servers_to_start(values, lambda text: None)]

    assert names == ["kafka", "mongod", backend]
