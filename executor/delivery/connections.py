"""Connections to targets: kept for a while after use, and not too many to one host."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext

import httpcore

from executor.delivery.network import Rules, Wire
from executor.delivery.places import place

# At that level it writes headers down.
logging.getLogger("httpcore").setLevel(logging.INFO)

_SWEEP_SECONDS = 5.0
# Of what the system gives, 64 KiB are handed on at once. A rest would wait out of sight, and be
# taken for the next answer.
_MOST_HEARD = 60 << 10


@dataclass(eq=False)
class _Line:
    """A connection and what it runs over."""

    connection: httpcore.AsyncHTTPConnection
    wire: Wire


@dataclass(eq=False)
class _Host:
    """What there is of one scheme, host and port."""

    free: asyncio.Semaphore
    users: int = 0
    """Those that have a connection, or wait for one."""
    idle: deque[_Line] = field(default_factory=deque)


class Connections:
    """All of them, by origin. `httpcore` has a pool too, but none per host, and a request that is
    cancelled at the wrong moment takes a place of it away for good."""

    def __init__(
        self,
        rules: Rules,
        tls: SSLContext,
        *,
        per_host: int,
        most_idle: int,
        keep_seconds: float,
    ) -> None:
        """
        Args:
            rules: how connections are made.
            tls: for https.
            per_host: connections to one host and port.
            most_idle: connections kept without use, to all hosts together.
            keep_seconds: how long each of them is kept.
        """
        self._rules = rules
        self._tls = tls
        self._per_host = per_host
        self._most_idle = most_idle
        self._keep_seconds = keep_seconds
        self._hosts: dict[str, _Host] = {}
        self._idle = 0
        self._sweeper: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def answer(
        self, request: httpcore.Request, *, patience: float, seconds: float
    ) -> AsyncIterator[httpcore.Response]:
        """Send a request; its answer, whose body is read inside of the block.

        Args:
            request: whose effect may be repeated, as its target can tell by Idempotency-Key.
            patience: seconds to wait for a connection to be free.
            seconds: for everything from then on, the block included.

        Raises:
            Busy: none was free in that time, or too many names are being looked up; nothing was
                sent.
            TimeoutError: `seconds` were over.
            AddressRefused, OSError, httpcore's: as `Wire.connect_tcp`, and what breaks off later.
        """
        origin = str(request.url.origin)
        host = self._hosts.setdefault(origin, _Host(asyncio.Semaphore(self._per_host)))
        host.users += 1
        try:
            async with place(host.free, patience), asyncio.timeout(seconds):
                line, response = await self._send(host, request)
                try:
                    yield response
                finally:
                    await self._put_back(host, line, response)
        finally:
            host.users -= 1
            if not host.users and not host.idle:
                self._hosts.pop(origin, None)

    async def _send(
        self, host: _Host, request: httpcore.Request
    ) -> tuple[_Line, httpcore.Response]:
        kept = await self._kept(host)
        if kept is not None:
            try:
                response = await self._exchange(kept, request)
            except (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError):
                # The server closed it just now, without a word. RFC 9110, 9.2.2, allows to repeat
                # what is idempotent; another connection finds out whether the server is well.
                if kept.wire.heard:
                    raise
            else:
                if kept.wire.heard:
                    return kept, response
                # Nothing came in: this was left over from the answer before, which was longer than
                # it said.
                await kept.connection.aclose()
        line = self._new(request.url.origin)
        return line, await self._exchange(line, request)

    async def _kept(self, host: _Host) -> _Line | None:
        """The youngest connection that the server has not closed: it is the least likely to.

        One on which something came unasked has expired too. What comes from now on, before the
        request is answered, cannot be told from its answer: HTTP/1.1 has no numbers.
        """
        while host.idle:
            line = host.idle.pop()
            self._idle -= 1
            if not line.connection.has_expired():
                return line
            await line.connection.aclose()
        return None

    async def _exchange(self, line: _Line, request: httpcore.Request) -> httpcore.Response:
        try:
            return await line.connection.handle_async_request(request)
        except BaseException:
            # httpcore leaves it open when it is cancelled between connecting and sending.
            await line.connection.aclose()
            raise

    def _new(self, origin: httpcore.Origin) -> _Line:
        wire = Wire(self._rules)
        connection = httpcore.AsyncHTTPConnection(
            origin, self._tls, keepalive_expiry=self._keep_seconds, network_backend=wire
        )
        return _Line(connection, wire)

    async def _put_back(self, host: _Host, line: _Line, response: httpcore.Response) -> None:
        try:
            # Closes the connection too when the answer was not read to its end.
            await response.aclose()
        finally:
            is_whole = line.connection.is_idle() and line.wire.heard <= _MOST_HEARD
            if is_whole and self._idle < self._most_idle:
                host.idle.append(line)
                self._idle += 1
                if self._sweeper is None or self._sweeper.done():
                    self._sweeper = asyncio.create_task(self._sweep())
            else:
                await line.connection.aclose()

    async def _sweep(self) -> None:
        while self._idle:
            await asyncio.sleep(_SWEEP_SECONDS)
            await self._close_idle(lambda line: line.connection.has_expired())

    async def close(self) -> None:
        """Close what is kept; nothing may be under way."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._close_idle(lambda line: True)

    async def _close_idle(self, is_over: Callable[[_Line], bool]) -> None:
        for origin, host in list(self._hosts.items()):
            closing = [line for line in host.idle if is_over(line)]
            for line in closing:
                host.idle.remove(line)
                self._idle -= 1
            if not host.users and not host.idle:
                del self._hosts[origin]
            for line in closing:
                await line.connection.aclose()
