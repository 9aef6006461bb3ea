"""Ends attempts that outlive their `timeoutSeconds`."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

from executor.held import Held


class Deadlines:
    """One thread that sleeps until the earliest deadline."""

    def __init__(self, expire: Callable[[Held], None]) -> None:
        """Start the thread.

        Args:
            expire: called once for each attempt whose time is up, from this thread.
        """
        self._expire = expire
        self._heap: list[tuple[float, int, Held]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
        self._thread.start()

    def add(self, held: Held, seconds: float) -> None:
        """Expire an attempt so many seconds from now, unless it has been settled by then."""
        with self._changed:
            heapq.heappush(self._heap, (time.monotonic() + seconds, next(self._order), held))
            self._changed.notify()

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (held := self._next()) is not None:
            if not held.is_settled:
                self._expire(held)

    def _next(self) -> Held | None:
        with self._changed:
            while not self._closed:
                if not self._heap:
                    self._changed.wait()
                    continue
                pause = self._heap[0][0] - time.monotonic()
                if pause <= 0:
                    return heapq.heappop(self._heap)[2]
                self._changed.wait(pause)
            return None
