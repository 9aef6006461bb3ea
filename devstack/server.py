"""One server as a child process: start it, wait until it answers, stop it, kill it."""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Final

from devstack import process
from devstack.process import Child, DevstackError

READY_TIMEOUT: Final = timedelta(minutes=2)
STOP_TIMEOUT: Final = timedelta(seconds=20)
LOG_LINES: Final = 8
"""Lines of a dead server's log that its error message shows."""
_POLL_SECONDS: Final = 0.05


class Server(ABC):
    """A server on 127.0.0.1 with its data in one directory.

    Args:
        directory: holds the data and the log; made when missing, reused when not.
        port: None: a free one, kept over restarts.
    """

    name: ClassVar[str]
    address_variable: ClassVar[str]
    """The variable that names a server which runs elsewhere."""
    port_variable: ClassVar[str]
    needed_bytes: ClassVar[int] = 100 << 20

    def __init__(self, directory: Path, port: int | None = None) -> None:
        self.directory = directory
        self.port = process.free_port() if port is None else port
        self.log = directory / f"{self.name}.log"
        self._child: Child | None = None

    @property
    def address(self) -> str:
        """host:port, as clients want it."""
        return f"127.0.0.1:{self.port}"

    @property
    def location(self) -> str:
        """The value of `address_variable` for this server's clients."""
        return self.address

    @property
    def pid(self) -> int:
        """The process to signal. Raises RuntimeError when the server was not started."""
        if self._child is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @abstractmethod
    def command(self) -> list[str]:
        """Program and arguments. Raises DevstackError when the program is missing."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server does its work for clients; called again until it does."""

    def check(self) -> None:
        """Raise DevstackError when the server cannot be started here."""
        self.command()
        self._check_directory()
        if not process.is_port_free(self.port):
            raise DevstackError(
                f"{self.name}: port {self.port} is in use. Set {self.address_variable} to use the "
                f"server that listens there, or {self.port_variable} to another port."
            )

    def start(self) -> None:
        """Start the process; `wait_ready` says when it answers.

        Raises:
            DevstackError: a missing program, a port in use or too little space.
        """
        self.check()
        with self.log.open("wb") as log:
            self._child = process.spawn(self.command(), output=log)

    def wait_ready(self, deadline: timedelta = READY_TIMEOUT) -> None:
        """Return when the server answers.

        Raises:
            DevstackError: it ended, or did not answer in time. The text shows the end of its log.
        """
        give_up_at = time.monotonic() + deadline.total_seconds()
        while not self.answers():
            if not self.is_alive:
                raise DevstackError(self.obituary())
            if time.monotonic() > give_up_at:
                raise DevstackError(
                    f"{self.name} did not answer on {self.address} within "
                    f"{deadline.total_seconds():.0f} s. {self._log_end()}"
                )
            time.sleep(_POLL_SECONDS)

    def obituary(self) -> str:
        """How the server ended, with the end of its log."""
        code = None if self._child is None else self._child.poll()
        return f"{self.name} ended with exit code {code}. {self._log_end()}"

    def terminate(self) -> None:
        """Ask the server to end; `stop` waits for it."""
        if self._child is not None:
            process.terminate(self._child)

    def stop(self) -> None:
        """End the server in good order, killing it when that takes too long."""
        if self._child is not None:
            process.stop(self._child, STOP_TIMEOUT)
            self._child = None

    def kill(self) -> None:
        """End the server as a crash would (`kill -9`)."""
        if self._child is not None:
            process.kill(self._child)
            self._child = None

    def restart(self) -> None:
        """Start again on the same data and port, and return when the server answers."""
        self.stop()
        self.start()
        self.wait_ready()

    def _check_directory(self) -> None:
        way_out = f"Set DEVSTACK_DIR to another folder, or {self.address_variable}."
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.directory).free
        except OSError as exc:
            raise DevstackError(
                f"{self.name}: {self.directory} cannot be used ({exc.strerror}). {way_out}"
            ) from exc
        if free < self.needed_bytes:
            raise DevstackError(
                f"{self.name}: {self.directory} has {free >> 20} MiB of free space, "
                f"{self.needed_bytes >> 20} MiB are needed. {way_out}"
            )

    def _log_end(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join([f"The end of {self.log}:", *(f"  {line[:300]}" for line in lines)])


def stop_all(servers: Sequence[Server]) -> None:
    """End several servers in good order, side by side."""
    for server in servers:
        server.terminate()
    for server in servers:
        server.stop()
