"""The one clock of the system: MongoDB's.

Leases and due times written by one process are compared by another. Taking every instant from the
store makes the skew of a node's own clock harmless; between two looks time passes by the monotonic
clock, so a jump of the wall clock is harmless too.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import MongoClient

from jobs.errors import StoreUnavailable
from jobs.repository.outages import outages_named

_SYNC_SECONDS = 60.0
_SAMPLES = 3
# What MongoDB tells is cut to milliseconds.
_RESOLUTION = timedelta(milliseconds=1)


class StoreClock:
    """Tells the store's time without asking it each time."""

    def __init__(self, client: MongoClient[dict[str, Any]]) -> None:
        self._client = client
        self._looked_at = float("-inf")
        self._epoch: datetime | None = None
        """What the store's clock showed when the monotonic clock showed 0."""

    def now(self) -> datetime:
        """The store's time, aware UTC, in whole milliseconds as MongoDB keeps them.

        Raises:
            StoreUnavailable: only when the store was never reached.
        """
        epoch = self._epoch
        if epoch is None or time.monotonic() - self._looked_at > _SYNC_SECONDS:
            epoch = self._look()
        now = epoch + timedelta(seconds=time.monotonic())
        return now.replace(microsecond=now.microsecond // 1000 * 1000)

    def _look(self) -> datetime:
        # Before the attempt: while MongoDB is away, it is tried once a minute, not each time. Two
        # threads that look at the same time do no harm.
        self._looked_at = time.monotonic()
        try:
            epoch, error = self._measure()
        except StoreUnavailable:
            if self._epoch is None:
                raise
        else:
            # A smaller difference may be none, and then time would go back for nothing.
            if self._epoch is None or abs(epoch - self._epoch) > error:
                self._epoch = epoch
        return self._epoch

    @outages_named()
    def _measure(self) -> tuple[datetime, timedelta]:
        """The epoch, and by how much it may be wrong."""
        best: tuple[float, datetime] | None = None
        for _ in range(_SAMPLES):
            asked = time.monotonic()
            answer = self._client.admin.command("hello")
            answered = time.monotonic()
            # `command` ignores the client's tz_aware.
            local: datetime = answer["localTime"].replace(tzinfo=UTC)
            epoch = local - timedelta(seconds=(asked + answered) / 2)
            if best is None or answered - asked < best[0]:
                best = (answered - asked, epoch)
        assert best is not None  # noqa: S101 - _SAMPLES is positive
        took, epoch = best
        return epoch, timedelta(seconds=took / 2) + _RESOLUTION
