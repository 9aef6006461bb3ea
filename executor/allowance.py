"""A counted allowance whose size may change: how many jobs may be held, how many may be started."""

from __future__ import annotations

import threading


class Allowance:
    """Permits up to a limit. Shrinking the limit takes nothing back; it only holds new ones up."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._changed = threading.Condition()

    @property
    def taken(self) -> int:
        """Permits that are out."""
        return self._taken

    @property
    def limit(self) -> int:
        """Permits there are in all."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        with self._changed:
            self._limit = limit
            self._changed.notify_all()

    def take(self, wanted: int, *, timeout: float = 0.0) -> int:
        """Take up to `wanted` permits, waiting up to `timeout` seconds for the first.

        Returns:
            How many were taken; 0 when none was free in time.
        """
        with self._changed:
            if self._taken >= self._limit and timeout:
                self._changed.wait_for(lambda: self._taken < self._limit, timeout)
            granted = max(0, min(wanted, self._limit - self._taken))
            self._taken += granted
            return granted

    def give(self, count: int = 1) -> None:
        """Return permits."""
        if count:
            with self._changed:
                self._taken -= count
                self._changed.notify(count)
