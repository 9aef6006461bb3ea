"""The way out to targets: every connection goes to an address that was checked, or is not made."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ssl import SSLContext, SSLError, SSLObject, SSLWantReadError
from typing import Any

import httpcore

from jobs.delivery.addresses import Network, may_reach, parsed

# Of a name with more addresses, the others would get too little time.
_MOST_TRIED = 4

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a host, at least one. Raises what `Resolver` raises."""


class AddressRefused(Exception):
    """The host has no address that may be reached."""


@dataclass(frozen=True)
class Rules:
    """What holds for every connection."""

    resolve: Resolve
    allowed: Sequence[Network]
    """Private networks that may be reached."""
    connect_seconds: float
    """For name, connection and TLS together."""


class Wire(httpcore.AsyncNetworkBackend):
    """What one connection runs over.

    The name is resolved here, each address is checked, and the checked address is what is connected
    to: a name that resolves to something else a moment later gains nothing.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._connect_by = 0.0
        self.heard = 0
        """Bytes that have come in since the last request was sent."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a checked address of a host.

        Raises:
            AddressRefused: it has none.
            Busy: too many names are being looked up.
            OSError: it has no address at all.
            httpcore.ConnectError, httpcore.ConnectTimeout: nobody answers there.
        """
        self._connect_by = asyncio.get_running_loop().time() + self._rules.connect_seconds
        try:
            async with asyncio.timeout_at(self._connect_by):
                addresses = await self._rules.resolve(host)
        except TimeoutError as exc:
            raise socket.gaierror(socket.EAI_AGAIN, "nobody answered in time") from exc
        allowed = [each for each in addresses if may_reach(parsed(each), self._rules.allowed)]
        if not allowed:
            raise AddressRefused(addresses[0])
        async with self._limit():
            return _Stream(await self._connect(allowed[:_MOST_TRIED], port), self)

    async def _connect(self, addresses: Sequence[str], port: int) -> httpcore.AsyncNetworkStream:
        *others, last = addresses
        for address in others:
            try:
                return await _TCP.connect_tcp(
                    address, port, timeout=self._rules.connect_seconds / len(addresses)
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await _TCP.connect_tcp(last, port)

    async def start_tls(
        self, stream: httpcore.AsyncNetworkStream, context: SSLContext, host: str | None
    ) -> httpcore.AsyncNetworkStream:
        """Encrypt a connection, in what is left of the time to connect."""
        try:
            async with self._limit():
                return await stream.start_tls(context, host)
        except BaseException:
            await stream.aclose()
            raise

    @asynccontextmanager
    async def _limit(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout_at(self._connect_by):
                yield
        except TimeoutError as exc:
            raise httpcore.ConnectTimeout from exc


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: httpcore.AsyncNetworkStream, wire: Wire) -> None:
        self._stream = stream
        self._wire = wire

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(max_bytes, timeout)
        self._wire.heard += len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._wire.heard = 0
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._wire.start_tls(self._stream, ssl_context, server_hostname)
        return _Stream(stream, self._wire)

    def get_extra_info(self, info: str) -> Any:
        value = self._stream.get_extra_info(info)
        if info == "is_readable":
            # Asked of an idle connection, which is closed when it is. The socket does not know what
            # came unasked in one packet with the answer, but in another record of TLS.
            return value or _has_more(self._stream.get_extra_info("ssl_object"))
        return value


def _has_more(tls: SSLObject | None) -> bool:
    if tls is None:
        return False
    try:
        tls.read(1)
    except SSLWantReadError:
        return False
    except SSLError:
        pass
    return True


_TCP = httpcore.AnyIOBackend()
