"""etcd's JSON gateway: one call, one connection, given up whenever the caller asks.

A campaign waits for its answer for hours, and only closing the connection ends it. The usual
clients (etcd3gw on requests, httpx) cannot do that from outside the call, hence this one.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    RemoteDisconnected,
)
from selectors import EVENT_READ, DefaultSelector
from typing import Any, Final

from chronos_site.certificates import untimely
from chronos_site.transport import EtcdSecurity
from jobs.errors import ElectionUnavailable
from scheduler.leadership.elector import Unanswered, uptime

CONNECT_TIMEOUT: Final = 0.3
"""Seconds. The one part of a call that cannot be given up early."""
HANDSHAKE_TIMEOUT: Final = 1.0
"""Seconds. The same where TLS is spoken, which costs both sides some arithmetic."""
READ_TIMEOUT: Final = 1.0
"""Seconds for the rest of an answer once its first byte is there."""
_LOOK: Final = 0.1
"""Seconds between two looks at whether a waiting call is still wanted."""

_AUTHENTICATION_SECONDS: Final = 5.0
"""etcd makes the check of a password slow on purpose."""

_NOT_FOUND: Final = 5
_UNAUTHENTICATED: Final = 16
_FINAL: Final = frozenset({3, 7, 9, 11, 12})
"""gRPC codes that a repeated call would meet again: invalid argument, permission denied, failed
precondition, out of range, unimplemented."""
# The election service passes both on with the code of an unknown error.
_TOKEN_REFUSALS: Final = ("invalid auth token", "revision of auth store is old")
_REFUSALS: Final = ("permission denied", "authentication ", "user name is empty")
_USER_REMEDY: Final = "Check ETCD_USERNAME, ETCD_PASSWORD and the user's rights."


class NotFound(Unanswered):
    """What the call names does not exist."""


class _TokenRefused(ElectionUnavailable):
    """etcd wants another token, or one at all."""


class Gateway:
    """Calls one member of an etcd cluster, and the next one after a call that was not answered."""

    def __init__(self, endpoints: Sequence[str], security: EtcdSecurity | None = None) -> None:
        """Prepare; nothing is sent.

        Args:
            endpoints: of `host:port`.
            security: None: neither TLS nor a user.

        Raises:
            ConfigError: a certificate or key cannot be used.
        """
        self.members: Final = len(endpoints)
        self._endpoints = deque(endpoints)
        self._security = security or EtcdSecurity()
        self._tls = self._security.context()
        self._token: str | None = None

    def call(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        deadline: float | None,
        abandon: threading.Event | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Make one call and return its answer, as the user if there is one.

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
        if self._security.username is None:
            return self._ask(path, body, deadline, abandon, meanwhile)
        token = self._token or self._authenticate(deadline, abandon)
        try:
            return self._ask(path, body, deadline, abandon, meanwhile, token)
        except _TokenRefused:
            # It ran out (after 5 minutes without a call), was forgotten in a restart, or is older
            # than a change of the users.
            token = self._authenticate(deadline, abandon)
            return self._ask(path, body, deadline, abandon, meanwhile, token)

    def _authenticate(self, deadline: float | None, abandon: threading.Event | None) -> str:
        user = {"name": self._security.username, "password": self._security.password}
        end = uptime() + _AUTHENTICATION_SECONDS
        answer = self._ask(
            "/v3/auth/authenticate", user, end if deadline is None else deadline, abandon
        )
        token = str(answer["token"])
        self._token = token
        return token

    def _ask(
        self,
        path: str,
        body: Mapping[str, Any],
        deadline: float | None,
        abandon: threading.Event | None,
        meanwhile: Callable[[], None] | None = None,
        token: str | None = None,
    ) -> dict[str, Any]:
        endpoint = self._endpoints[0]
        try:
            with closing(self._connection(endpoint, deadline)) as connection:
                connection.connect()
                _keep_open(connection.sock)
                headers = {} if token is None else {"Authorization": token}
                connection.request("POST", path, json.dumps(body), headers)
                response = HTTPResponse(connection.sock, method="POST")
                with closing(response):
                    _wait(connection.sock, response, deadline, abandon, meanwhile)
                    response.begin()
                    return _answer(response.status, response.read())
        except NotFound:
            raise
        except _TokenRefused as exc:
            raise _TokenRefused(f"etcd {endpoint}{path}: {exc}") from exc
        except ssl.SSLError as exc:
            self._leave(endpoint)
            raise Unanswered(
                f"etcd {endpoint}{path}: {exc}. Check ETCD_TLS_CA, ETCD_TLS_CERT and ETCD_TLS_KEY, "
                "and the name and dates of etcd's certificate."
                f"{untimely((self._security.ca, self._security.cert))}"
            ) from exc
        except (OSError, HTTPException, ValueError, Unanswered) as exc:
            self._leave(endpoint)
            hint = ""
            if isinstance(exc, RemoteDisconnected) and self._tls is None:
                hint = ". It may demand TLS: ETCD_TLS_CA"
            raise Unanswered(f"etcd {endpoint}{path}: {exc}{hint}") from exc
        except ElectionUnavailable as exc:
            raise ElectionUnavailable(f"etcd {endpoint}{path}: {exc}") from exc

    def _connection(self, endpoint: str, deadline: float | None) -> HTTPConnection:
        longest = CONNECT_TIMEOUT if self._tls is None else HANDSHAKE_TIMEOUT
        remaining = longest if deadline is None else deadline - uptime()
        timeout = max(0.01, min(longest, remaining))
        if self._tls is None:
            return HTTPConnection(endpoint, timeout=timeout)
        return HTTPSConnection(endpoint, timeout=timeout, context=self._tls)

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
    response: HTTPResponse,
    deadline: float | None,
    abandon: threading.Event | None,
    meanwhile: Callable[[], None] | None,
) -> None:
    """Return when the first byte of the answer, or the end of the connection, can be read."""
    sock.settimeout(READ_TIMEOUT)
    with DefaultSelector() as selector:
        selector.register(sock, EVENT_READ)
        while not (selector.select(_LOOK) and _has_begun(sock, response)):
            if abandon is not None and abandon.is_set():
                raise Unanswered("abandoned")
            if deadline is not None and uptime() >= deadline:
                raise TimeoutError("no answer in time")
            if meanwhile is not None:
                meanwhile()


def _has_begun(sock: socket.socket, response: HTTPResponse) -> bool:
    """Whether what can be read is the answer: TLS also sends tickets and keys."""
    sock.settimeout(0)
    try:
        response.fp.peek(1)
    except ssl.SSLWantReadError:
        return False
    finally:
        sock.settimeout(READ_TIMEOUT)
    return True


def _answer(status: int, text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        if status == 404:
            raise ElectionUnavailable("there is no etcd gateway of version 3 here") from None
        if status == 400:
            # That of a client certificate with a common name, where etcd has users.
            raise ElectionUnavailable(text.decode(errors="replace").strip()) from None
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
    if code == _UNAUTHENTICATED or any(refusal in message for refusal in _TOKEN_REFUSALS):
        raise _TokenRefused(f"{message}. {_USER_REMEDY}")
    if any(refusal in message for refusal in _REFUSALS):
        raise ElectionUnavailable(f"{message}. {_USER_REMEDY}")
    raise ElectionUnavailable(message) if code in _FINAL else Unanswered(message)
