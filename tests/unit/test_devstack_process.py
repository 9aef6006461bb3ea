"""Child processes: they end when told, and never outlive their parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from devstack import process

ROOT = Path(__file__).resolve().parents[2]


def stat_of(pid: int) -> str | None:
    """The state letter of a process; None: gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None


def wait_until_gone(pid: int) -> None:
    give_up_at = time.monotonic() + 10
    while stat_of(pid) not in (None, "Z"):
        assert time.monotonic() < give_up_at, f"process {pid} is still there"
        time.sleep(0.01)


def test_stop_lets_a_child_end_in_good_order() -> None:
    script = "trap 'exit 7' TERM; echo up; sleep 600 & wait"
    child = process.spawn(["/bin/sh", "-c", script], output=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()

    process.stop(child, timedelta(seconds=10))

    assert child.returncode == 7


def test_stop_kills_a_child_that_does_not_listen_and_its_own_children() -> None:
    script = "trap '' TERM; sleep 600 & echo $!; wait; wait"
    child = process.spawn(["/bin/sh", "-c", script], output=subprocess.PIPE)
    assert child.stdout
    grandchild = int(child.stdout.readline())

    process.stop(child, timedelta(milliseconds=100))

    assert child.returncode == -signal.SIGKILL
    wait_until_gone(grandchild)


def test_stop_ends_a_child_that_is_stalled() -> None:
    child = process.spawn(["/bin/sleep", "600"], output=subprocess.DEVNULL)
    child.send_signal(signal.SIGSTOP)

    process.stop(child, timedelta(seconds=10))

    assert child.returncode == -signal.SIGTERM


def test_a_child_outlives_the_thread_that_spawned_it() -> None:
    children: list[process.Child] = []
    thread = threading.Thread(
        target=lambda: children.append(
            process.spawn(["/bin/sh", "-c", "echo up; exec sleep 600"], output=subprocess.PIPE)
        )
    )
    thread.start()
    thread.join()
    [child] = children
    assert child.stdout
    assert child.stdout.readline() == b"up\n"

    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.2)
    process.kill(child)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_dies_with_its_parent(end: signal.Signals) -> None:
    program = (
        "from devstack import process; import subprocess, time\n"
        "child = process.spawn(['/bin/sleep', '600'], output=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE)
    assert parent.stdout
    child = int(parent.stdout.readline())

    parent.send_signal(end)
    parent.wait()

    wait_until_gone(child)


def test_a_child_that_starts_after_its_parents_death_ends() -> None:
    never_a_parent = "1" if os.getpid() != 1 else "2"

    guard = subprocess.run(
        [sys.executable, "-I", "-S", str(process.GUARD), never_a_parent, "/bin/echo", "ran"],
        capture_output=True,
        check=False,
    )

    assert guard.returncode == 1
    assert b"ran" not in guard.stdout


def test_a_child_does_not_hear_ctrl_c() -> None:
    child = process.spawn(["/bin/sleep", "600"], output=subprocess.DEVNULL)

    assert os.getpgid(child.pid) != os.getpgid(0)
    assert os.getsid(child.pid) != os.getsid(0)
    process.kill(child)


def test_a_listener_takes_its_port() -> None:
    port = process.free_port()
    assert process.is_port_free(port)
    assert not process.accepts(port)

    with socket.create_server(("127.0.0.1", port)):
        assert not process.is_port_free(port)
        assert process.accepts(port)


def test_no_two_are_given_the_same_port() -> None:
    """Of so many drawn at random some would be the same, and neither of the two listens yet."""
    ports = [process.free_port() for _ in range(500)]

    assert len(set(ports)) == len(ports)
