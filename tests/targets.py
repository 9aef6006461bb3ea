"""HTTP servers for deliveries: on loopback, scripted down to the byte, and counting."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from socketserver import BaseRequestHandler, ThreadingTCPServer

PATIENCE = 20.0


@dataclass(frozen=True)
class Arrived:
    """A request as it came in."""

    line: str
    headers: dict[str, str]
    """By name in lower case."""
    body: bytes


Behave = Callable[[socket.socket, Arrived], None]
"""Answers one request; the connection is kept for the next one unless it closes it."""


def answer(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    """A proper answer; underscores in the names of headers stand for dashes."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def sends(data: bytes) -> Behave:
    """Sends these bytes for each request."""
    return lambda connection, request: connection.sendall(data)


def hangs_up_after(data: bytes) -> Behave:
    """Sends these bytes, then closes."""

    def behave(connection: socket.socket, request: Arrived) -> None:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_RDWR)

    return behave


@dataclass
class Target:
    """A server of its own threads, on a free port of 127.0.0.1."""

    behave: Behave
    tls: ssl.SSLContext | None = None
    requests: list[Arrived] = field(default_factory=list)
    connections: int = 0
    """Accepted so far."""
    open: int = 0
    most_open: int = 0
    """Open at the same time, at most."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.left = threading.Event()
        """Set when a connection has ended."""
        target = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                target._handle(self.request)

        class Server(ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 1000

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handle(self, connection: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            self.open += 1
            self.most_open = max(self.most_open, self.open)
        try:
            # The client may go away at any moment, which may be just what is tested.
            with suppress(OSError):
                connection.settimeout(PATIENCE)
                if self.tls is not None:
                    connection = self.tls.wrap_socket(connection, server_side=True)
                self._serve(connection)
        finally:
            with self._lock:
                self.open -= 1
            connection.close()
            self.left.set()

    def _serve(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as file:
            while line := file.readline():
                headers = {}
                while (header := file.readline().strip()) != b"":
                    name, _, value = header.decode("latin-1").partition(": ")
                    headers[name.lower()] = value
                body = file.read(int(headers.get("content-length", 0)))
                arrived = Arrived(line.decode("latin-1").strip(), headers, body)
                self.requests.append(arrived)
                self.behave(connection, arrived)
