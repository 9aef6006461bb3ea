"""The store's time for the event loop, which must not wait for MongoDB."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta


class SteadyClock:
    """Goes on by the monotonic clock, from what the store's showed when `look` was called."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        """
        Args:
            clock: the store's time; may block while MongoDB is away.
        """
        self._clock = clock
        self.look()

    def look(self) -> None:
        """Put it right. Not on the event loop."""
        self._epoch = self._clock() - timedelta(seconds=time.monotonic())

    def __call__(self) -> datetime:
        """The store's time, aware UTC, in whole milliseconds as MongoDB keeps them."""
        now = self._epoch + timedelta(seconds=time.monotonic())
        return now.replace(microsecond=now.microsecond // 1000 * 1000)
