"""`manage.py devstack` as a person runs it: the demo, Ctrl-C, crashes; nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from chronos_site import env
from devstack.process import free_port
from tests.processes import RoleProcess
from tests.waiting import ANSWER_SECONDS, wait_for

PATIENCE = timedelta(seconds=180)
StartDevstack = Callable[..., RoleProcess]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "devstack"


@pytest.fixture
def start_devstack(directory: Path) -> Iterator[StartDevstack]:
    """Starts `manage.py devstack` on ports of the test's own."""
    own = {
        "DJANGO_SETTINGS_MODULE": "chronos_site.settings",
        "DEVSTACK_DIR": str(directory),
        "DEVSTACK_MONGO_PORT": str(free_port()),
        "DEVSTACK_KAFKA_PORT": str(free_port()),
        "DEVSTACK_ETCD_PORT": str(free_port()),
        "API_PORT": str(free_port()),
    }
    started: list[RoleProcess] = []

    def start(*options: str, **variables: str) -> RoleProcess:
        stack = RoleProcess("devstack", *options, environment=env.for_child(**own | variables))
        started.append(stack)
        return stack

    yield start
    for stack in started:
        stack.clear()


def processes_of(directory: Path) -> dict[int, str]:
    """The living processes that belong to the stack in this directory: ids and command lines."""
    mark = f"DEVSTACK_DIR={directory}\0".encode()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
        # It ended meanwhile, or belongs to somebody else.
        except OSError:
            continue
    return found


def assert_nothing_is_left(directory: Path) -> None:
    wait_for(lambda: not processes_of(directory), show=lambda: processes_of(directory))


def pid_of(directory: Path, command: str) -> int:
    [pid] = [pid for pid, line in processes_of(directory).items() if command in line]
    return pid


@pytest.mark.timeout(3 * PATIENCE.total_seconds())
def test_the_demo_ends_well_and_so_does_a_second_one_on_the_same_data(
    start_devstack: StartDevstack, directory: Path
) -> None:
    printed: list[set[tuple[str, str]]] = []
    for dispatch in ("leader", "fanout"):
        stack = start_devstack("--demo", "--exit", DISPATCH=dispatch)

        assert stack.wait(PATIENCE) == 0, stack.output
        assert "Every job of the demo completed." in stack.output
        assert "/docs" in stack.output
        logins = set(re.findall(r"login +(\S+) +password (\S+)", stack.output))
        assert logins == set(json.loads((directory / "passwords.json").read_text()).items())
        assert {name for name, _ in logins} == {"demo-admin", "demo-operator", "demo-viewer"}
        printed.append(logins)
        assert_nothing_is_left(directory)
    assert printed[0] == printed[1]


def test_servers_only_prints_what_to_export_and_ends_with_sigterm(
    start_devstack: StartDevstack, directory: Path
) -> None:
    stack = start_devstack("--servers-only")
    stack.wait_for_line("Ctrl-C", PATIENCE)
    exports = [line for line in stack.output.splitlines() if line.startswith("export ")]

    assert [line.split()[1].partition("=")[0] for line in sorted(exports)] == [
        "ETCD_ENDPOINTS",
        "KAFKA_BROKERS",
        "MONGO_URI",
    ]
    assert stack.terminate() == 0
    assert_nothing_is_left(directory)


def test_a_second_devstack_on_the_same_directory_is_refused(start_devstack: StartDevstack) -> None:
    first = start_devstack("--servers-only")
    first.wait_for_line("starts on")

    second = start_devstack("--servers-only")

    assert second.wait() == 1
    assert f"(process {first.pid}) already runs" in second.output
    assert "Traceback" not in second.output


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("DEVSTACK_ETCD_PORT", "etcd: port {} is in use. Set ETCD_ENDPOINTS to use the server"),
        ("API_PORT", "api: port {} is in use. Set API_PORT"),
    ],
)
def test_a_port_in_use_ends_it_with_one_sentence(
    start_devstack: StartDevstack, variable: str, sentence: str
) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        port = str(listener.getsockname()[1])
        stack = start_devstack(**{variable: port})

        assert stack.wait() == 1

    assert sentence.format(port) in stack.output
    assert "Traceback" not in stack.output
    assert "starts on" not in stack.output


def test_ctrl_c_while_servers_start_leaves_nothing(
    start_devstack: StartDevstack, directory: Path
) -> None:
    stack = start_devstack()
    stack.wait_for_line("etcd starts")

    # As from `timeout make demo`: both signal the whole group.
    stack.interrupt()
    os.kill(stack.pid, signal.SIGTERM)

    assert stack.wait() == 0
    assert stack.output.endswith("| stopped")
    assert_nothing_is_left(directory)


def test_kill_9_of_the_stack_leaves_nothing(start_devstack: StartDevstack, directory: Path) -> None:
    stack = start_devstack()
    stack.wait_for_line("Ctrl-C", PATIENCE)
    assert len(processes_of(directory)) > 8

    stack.kill()

    assert_nothing_is_left(directory)


def test_crashes_are_told_roles_start_again_and_ctrl_c_still_stops_everything(
    start_devstack: StartDevstack, directory: Path
) -> None:
    stack = start_devstack()
    stack.wait_for_line("Ctrl-C", PATIENCE)

    os.kill(pid_of(directory, "runreaper"), signal.SIGKILL)
    stack.wait_for_line("ended with exit code -9; it is started again in 1 s")
    os.kill(pid_of(directory, "etcdbin/etcd"), signal.SIGKILL)
    stack.wait_for_line("etcd ended with exit code -9")

    stack.interrupt()
    assert stack.wait(PATIENCE) == 0
    assert stack.output.endswith("| stopped")
    assert_nothing_is_left(directory)


def test_servers_that_run_elsewhere_are_not_started(
    start_devstack: StartDevstack, role_env: dict[str, str]
) -> None:
    names = ("MONGO_URI", "MONGO_DB", "KAFKA_BROKERS", "ETCD_ENDPOINTS", "API_PORT")
    elsewhere = {name: role_env[name] for name in names}

    stack = start_devstack(**elsewhere)

    stack.wait_for_line("Ctrl-C", PATIENCE)
    assert "starts on" not in stack.output
    health = httpx.get(
        f"http://127.0.0.1:{role_env['API_PORT']}/healthz", trust_env=False, timeout=ANSWER_SECONDS
    )
    assert health.text == "ok"
    assert stack.terminate() == 0
