"""etcd's JSON gateway: one call, one connection, given up whenever the caller asks.

A campaign waits for its answer for hours, and only closing the connection ends it. The usual
clients (etcd3gw on requests, httpx) cannot do that from outside the call, hence this one.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from selectors import EVENT_READ, DefaultSelector
from typing import Any, Final

from jobs.errors import ElectionUnavailable
from scheduler.leadership.elector import Unanswered, uptime

CONNECT_TIMEOUT: Final = 0.3
"""Seconds. The one part of a call that cannot be given up early."""
READ_TIMEOUT: Final = 1.0
"""Seconds for the rest of an answer once its first byte is there."""
_LOOK: Final = 0.1
"""Seconds between two looks at whether a waiting call is still wanted."""

_NOT_FOUND: Final = 5
_FINAL: Final = frozenset({3, 7, 11, 12, 16})
"""gRPC codes that a repeated call would meet again: invalid argument, permission denied, out of
range, unimplemented, unauthenticated."""


class NotFound(Unanswered):
    """What the call names does not exist."""


class Gateway:
    """Calls one member of an etcd cluster, and the next one after a call that was not answered."""

    def __init__(self, endpoints: Sequence[str]) -> None:
        """Prepare; nothing is sent. An endpoint is `host:port`."""
        self.members: Final = len(endpoints)
        self._endpoints = deque(endpoints)

    def call(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        deadline: float | None,
        abandon: threading.Event | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Make one call and return its answer.

        Args:
            path: such as `/v3/lease/grant`.
            body: 64-bit integers may be numbers or strings; bytes are base64 text.
            deadline: on the clock of `uptime`; None waits for ever.
            abandon: gives the call up when set. etcd then undoes a campaign that was waiting.
            meanwhile: called every tenth of a second while waiting; what it raises ends the call.

        Raises:
            Unanswered: no usable answer from this member, or abandoned.
            ElectionUnavailable: this call cannot succeed, now or later.
        """
        endpoint = self._endpoints[0]
        remaining = CONNECT_TIMEOUT if deadline is None else deadline - uptime()
        try:
            with closing(
                HTTPConnection(endpoint, timeout=max(0.01, min(CONNECT_TIMEOUT, remaining)))
            ) as connection:
                connection.connect()
                _keep_open(connection.sock)
                connection.request("POST", path, json.dumps(body))
                _wait(connection.sock, deadline, abandon, meanwhile)
                response = connection.getresponse()
                return _answer(response.status, response.read())
        except NotFound:
            raise
        except (OSError, HTTPException, ValueError, Unanswered) as exc:
            self._leave(endpoint)
            raise Unanswered(f"etcd {endpoint}{path}: {exc}") from exc
        except ElectionUnavailable as exc:
            raise ElectionUnavailable(f"etcd {endpoint}{path}: {exc}") from exc

    def _leave(self, endpoint: str) -> None:
        # Two threads may have failed on the same member: move on once only.
        if self._endpoints[0] == endpoint:
            self._endpoints.rotate(-1)


def _keep_open(sock: socket.socket) -> None:
    """Keep firewalls from forgetting an idle connection, and notice within 30 s if one did."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _wait(
    sock: socket.socket,
    deadline: float | None,
    abandon: threading.Event | None,
    meanwhile: Callable[[], None] | None,
) -> None:
    """Return when the first byte of the answer, or the end of the connection, can be read."""
    sock.settimeout(READ_TIMEOUT)
    with DefaultSelector() as selector:
        selector.register(sock, EVENT_READ)
        while not selector.select(_LOOK):
            if abandon is not None and abandon.is_set():
                raise Unanswered("abandoned")
            if deadline is not None and uptime() >= deadline:
                raise TimeoutError("no answer in time")
            if meanwhile is not None:
                meanwhile()


def _answer(status: int, text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        if status == 404:
            raise ElectionUnavailable("there is no etcd gateway of version 3 here") from None
        raise
    if not isinstance(answer, dict):
        raise Unanswered(f"status {status} and {text[:100]!r}")
    error = answer.get("error")
    if status == 200 and error is None:
        return answer
    # A streaming call puts the whole status inside `error`, a simple one beside it.
    details = error if isinstance(error, dict) else answer
    code = details.get("grpc_code", details.get("code"))
    message = str(details.get("message", f"status {status}"))
    if code == _NOT_FOUND:
        raise NotFound(message)
    raise ElectionUnavailable(message) if code in _FINAL else Unanswered(message)
