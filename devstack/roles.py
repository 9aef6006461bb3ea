"""One role as a child process: `manage.py` commands that are started again when they crash."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from threading import Thread
from typing import Final

from django.conf import settings

from devstack import process
from devstack.process import Child
from devstack.terminal import Terminal

SHORTEST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
"""Seconds before a role that crashed is started again: doubled while it keeps crashing."""


def run_command(arguments: tuple[str, ...], environment: Mapping[str, str]) -> Child:
    """Start a `manage.py` command whose output goes to a pipe."""
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments]
    return process.spawn(command, output=subprocess.PIPE, environment=environment)


class Role:
    """A running role.

    Args:
        name: its source in the terminal.
        arguments: of manage.py.
        environment: all of its variables.
        metrics_port: where it answers /readyz.
    """

    def __init__(
        self,
        name: str,
        arguments: tuple[str, ...],
        environment: Mapping[str, str],
        metrics_port: int,
        terminal: Terminal,
    ) -> None:
        self.name = name
        self.metrics_port = metrics_port
        self._arguments = arguments
        self._environment = {**environment, "METRICS_PORT": str(metrics_port)}
        self._terminal = terminal
        self._pause = SHORTEST_PAUSE
        self._child, self._reader = self._start()
        self._started_at = time.monotonic()
        self._restart_at: float | None = None

    def tend(self) -> None:
        """Start the role again when it has crashed and its pause is over. Called often."""
        now = time.monotonic()
        if self._restart_at is not None:
            if now >= self._restart_at:
                self._child, self._reader = self._start()
                self._started_at, self._restart_at = now, None
        elif (code := self._child.poll()) is not None:
            if now - self._started_at > LONGEST_PAUSE:
                self._pause = SHORTEST_PAUSE
            self._terminal.say(
                f"ended with exit code {code}; it is started again in {self._pause:.0f} s.",
                self.name,
            )
            # What its children still hold, they would hold against the next one.
            process.kill_group(self._child)
            self._restart_at = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def terminate(self) -> None:
        """Ask the role to end; `stop` waits for it."""
        process.terminate(self._child)

    def stop(self, grace: timedelta) -> None:
        """End the role in good order, killing it when that takes longer than `grace`."""
        process.stop(self._child, grace)
        # Not for ever: something that left the process group may hold the pipe.
        self._reader.join(1)

    def _start(self) -> tuple[Child, Thread]:
        child = run_command(self._arguments, self._environment)
        return child, self._terminal.show(child, self.name)
