"""Roles as real processes: `manage.py` commands to wait for, stop, stall and kill."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from chronos_site import env
from devstack import process
from tests.waiting import ANSWER_SECONDS, DEADLINE

if TYPE_CHECKING:
    from chronos_site.config import BrokerConfig, StoreConfig

MANAGE = Path(__file__).resolve().parent.parent / "manage.py"


def environment_for(
    store: StoreConfig, broker: BrokerConfig, etcd: Sequence[str]
) -> dict[str, str]:
    """The variables of roles that use these servers."""
    return env.for_child(
        DJANGO_SETTINGS_MODULE="chronos_site.settings",
        MONGO_URI=store.uri,
        MONGO_DB=store.database,
        KAFKA_BROKERS=",".join(broker.brokers),
        ETCD_ENDPOINTS=",".join(etcd),
        API_PORT=str(process.free_port()),
        METRICS_PORT=str(process.free_port()),
        LOG_FORMAT="text",
    )


class RoleProcess:
    """A running `manage.py` command. It dies with the test run, however that ends.

    Args:
        arguments: the command's name and its arguments.
        environment: all of its variables, see the fixture `role_env`. METRICS_PORT is replaced by
            a free port, kept in `metrics_port`.
    """

    def __init__(self, *arguments: str, environment: Mapping[str, str]) -> None:
        self.arguments = arguments
        self.metrics_port = process.free_port()
        self._child = process.spawn(
            [sys.executable, str(MANAGE), *arguments],
            output=subprocess.PIPE,
            environment={
                **environment,
                "METRICS_PORT": str(self.metrics_port),
                "PYTHONUNBUFFERED": "1",
                "PYTHONFAULTHANDLER": "1",
            },
        )
        self._lines: list[str] = []
        self._ended = False
        self._news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    @property
    def output(self) -> str:
        """Everything written so far, to standard output and standard error."""
        with self._news:
            return "\n".join(self._lines)

    def wait_for_line(self, text: str, deadline: timedelta = DEADLINE) -> str:
        """The first line that contains `text`, among those written and those to come."""

        def found() -> str | None:
            return next((line for line in self._lines if text in line), None)

        with self._news:
            self._news.wait_for(lambda: found() or self._ended, deadline.total_seconds())
            line = found()
        assert line is not None, f"{self} wrote no line with {text!r}:\n{self.output}"
        return line

    def wait_ready(self, deadline: timedelta = DEADLINE) -> None:
        """Return when /readyz answers 200."""
        give_up_at = time.monotonic() + deadline.total_seconds()
        while self.get("/readyz")[0] != httpx.codes.OK:
            assert self.is_alive, f"{self} ended:\n{self.output}"
            assert time.monotonic() < give_up_at, f"{self} is not ready:\n{self.output}"
            time.sleep(0.05)

    def get(self, path: str) -> tuple[int, str]:
        """Status and text that it answers on METRICS_PORT; (0, "") when nobody answers."""
        try:
            url = f"http://127.0.0.1:{self.metrics_port}{path}"
            answer = httpx.get(url, timeout=ANSWER_SECONDS, trust_env=False)
        except httpx.HTTPError:
            return 0, ""
        return answer.status_code, answer.text

    def wait(self, deadline: timedelta = DEADLINE) -> int:
        """The exit code, once the command has ended and all its output was read."""
        try:
            code = self._child.wait(deadline.total_seconds())
        except subprocess.TimeoutExpired:
            # Has every thread tell where it is.
            self._child.send_signal(signal.SIGABRT)
            self.wait()
            raise AssertionError(f"{self} went on after {deadline}:\n{self.output}") from None
        with self._news:
            assert self._news.wait_for(lambda: self._ended, deadline.total_seconds())
        return code

    def terminate(self, deadline: timedelta = DEADLINE) -> int:
        """End it in good order (SIGTERM). Returns the exit code."""
        process.terminate(self._child)
        return self.wait(deadline)

    def interrupt(self) -> None:
        """Ctrl-C (SIGINT)."""
        self._child.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """A crash (`kill -9`). Children of its own are left alone, as in a crash."""
        self._child.kill()
        self._child.wait()

    def clear(self) -> None:
        """Leave nothing of it behind, whatever became of it."""
        self.kill()
        process.kill_group(self._child)

    def stall(self) -> None:
        """Stop it in its tracks (SIGSTOP) until `resume`."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        self._child.send_signal(signal.SIGCONT)

    def __str__(self) -> str:
        return f"manage.py {' '.join(self.arguments)} (pid {self.pid})"

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self._news:
                self._lines.append(line.decode(errors="replace").rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()
