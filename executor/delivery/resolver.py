"""The addresses of host names, of which any may belong to somebody who has look-ups hang."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final
from weakref import WeakValueDictionary

from executor.delivery.places import place

MOST_LOOK_UPS: Final = 64
"""At once; each takes a thread."""
MOST_OF_ONE_DOMAIN: Final = 16

# Shorter than any time-out that makes sense, and many times what a look-up takes.
_PATIENCE: Final = 0.5
# Two name servers, of which the first is dead, take 5 s.
_SILENT_AFTER: Final = 8.0
_REST: Final = 10.0


class Resolver:
    """Asks the system. Several who ask for one name at the same time share one look-up."""

    def __init__(
        self,
        ask: Callable[[str], list[str]] | None = None,
        *,
        patience: float = _PATIENCE,
        silent_after: float = _SILENT_AFTER,
        rest: float = _REST,
    ) -> None:
        """
        Args:
            ask: looks a name up, and blocks meanwhile; None: the system's way.
            patience: seconds to wait until another look-up may begin.
            silent_after: seconds from which on a look-up counts as one that hangs.
            rest: seconds until a name whose look-up hung is looked up again.
        """
        self._ask = ask or _addresses
        self._patience = patience
        self._silent_after = silent_after
        self._rest = rest
        self._free = asyncio.Semaphore(MOST_LOOK_UPS)
        self._domains: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._under_way: dict[str, asyncio.Task[list[str]]] = {}
        self._silent: set[str] = set()

    async def __call__(self, host: str) -> Sequence[str]:
        """The addresses of a host, which may be an address in any spelling.

        Raises:
            Busy: there are too many look-ups already.
            OSError: it has none, or nobody knows now.
            UnicodeError: it can be no name.
        """
        try:
            # Asks nobody, so it is done at once.
            return _addresses(host, socket.AI_NUMERICHOST)
        except socket.gaierror:
            pass
        if host in self._silent:
            raise socket.gaierror(socket.EAI_AGAIN, "its name servers did not answer just now")
        task = self._under_way.get(host)
        if task is None:
            task = self._under_way[host] = asyncio.create_task(self._look_up(host))
            task.add_done_callback(lambda done: self._forget(host, done))
        # Whoever gives up waiting must not end it for the others.
        return await asyncio.shield(task)

    def _forget(self, host: str, done: asyncio.Task[list[str]]) -> None:
        del self._under_way[host]
        if not done.cancelled():
            # Looked at, though everybody who asked may have given up.
            done.exception()

    async def _look_up(self, host: str) -> list[str]:
        loop = asyncio.get_running_loop()
        domain = ".".join(host.rstrip(".").split(".")[-2:])
        of_domain = self._domains.setdefault(domain, asyncio.Semaphore(MOST_OF_ONE_DOMAIN))
        async with place(of_domain, self._patience), place(self._free, self._patience):
            timer = loop.call_later(self._silent_after, self._silent.add, host)
            try:
                return await asyncio.wrap_future(self._asked(host))
            finally:
                timer.cancel()
                if host in self._silent:
                    loop.call_later(self._rest, self._silent.discard, host)

    def _asked(self, host: str) -> Future[list[str]]:
        answer: Future[list[str]] = Future()
        # It has begun: nobody can cancel it.
        answer.set_running_or_notify_cancel()

        def ask() -> None:
            try:
                answer.set_result(self._ask(host))
            except OSError as exc:
                answer.set_exception(exc)

        # Python waits for the threads of an executor at its end.
        threading.Thread(target=ask, name="resolver", daemon=True).start()
        return answer


def _addresses(host: str, flags: int = 0) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
