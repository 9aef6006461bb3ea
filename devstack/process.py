"""Child processes that never outlive this one, and the ports they listen on."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, Final

from jobs.errors import ChronosError

GUARD: Final = Path(__file__).with_name("guard.py")
PORTS: Final = range(20_000, 32_768)
"""Below Linux's ephemeral ports: no client is given the port of a server that is down."""

# Who was given one may not listen on it yet.
_given: deque[int] = deque(maxlen=1000)

# The kernel sends the death signal when the *thread* that forked ends: this one ends last.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")

Child = subprocess.Popen[bytes]


class DevstackError(ChronosError):
    """A part of the development stack cannot run. The text says what to do."""

    code = "devstack"


def spawn(
    command: Sequence[str],
    *,
    output: int | IO[bytes],
    environment: Mapping[str, str] | None = None,
) -> Child:
    """Start a command that is killed when this process ends, however it ends.

    The child leads a session of its own, so that Ctrl-C in the terminal reaches only this process.

    Args:
        command: the program's full path and its arguments.
        output: where its output and error output go: a file or `subprocess.PIPE`.
        environment: all of its variables; None: those of this process.
    """
    guarded = [sys.executable, "-I", "-S", str(GUARD), str(os.getpid()), *command]
    return _spawner.submit(
        subprocess.Popen[bytes],
        guarded,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    ).result()


def terminate(child: Child) -> None:
    """Ask the child to end, also when it is stopped (SIGSTOP)."""
    child.send_signal(signal.SIGTERM)
    child.send_signal(signal.SIGCONT)


def kill_group(child: Child) -> None:
    """Kill the child and its own children, also those that it left behind a moment ago."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def kill(child: Child) -> None:
    """End a child that may still run, and its own children, at once."""
    if child.poll() is None:
        kill_group(child)
        child.wait()


def stop(child: Child, grace: timedelta) -> None:
    """Ask the child to end, and kill what is left of its process group after `grace`."""
    if child.poll() is None:
        terminate(child)
        with suppress(subprocess.TimeoutExpired):
            child.wait(grace.total_seconds())
        kill_group(child)
        child.wait()


def is_port_free(port: int) -> bool:
    """Whether a server could listen on this port of the loopback interface now."""
    with socket.socket() as probe:
        # As servers do: connections of an earlier server that are still closing are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        # The second one beyond 65535.
        except (OSError, OverflowError):
            return False
        return True


def accepts(port: int) -> bool:
    """Whether somebody listens on this port of the loopback interface."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port of the loopback interface that is free, and that nobody was given a moment ago."""
    while True:
        port = PORTS.start + secrets.randbelow(len(PORTS))
        if port not in _given and is_port_free(port):
            _given.append(port)
            return port
