"""How fast this executor's handlers are, and so how much it should hold and start ahead."""

from __future__ import annotations

# Jobs waiting here cannot be taken by another executor and are out of reach of priority, so no more
# is held than is worked off in this time.
_HOLD = 0.5
# A started job that the process takes down with it loses an attempt, so no more is started than is
# worked off while one write is under way.
_START_AHEAD = 0.01
_MOST_AHEAD = 500
_WEIGHT = 0.05


class Pace:
    """A moving average of handler times. Written by many threads; a lost update does no harm."""

    def __init__(self, *, slots: int, most_prefetch: int, starts_ahead: bool = True) -> None:
        self._slots = slots
        self._most_ahead = _MOST_AHEAD if starts_ahead else 0
        self._most_prefetch = most_prefetch
        self._average: float | None = None

    def note(self, seconds: float) -> None:
        """A handler took so long."""
        before = self._average
        self._average = seconds if before is None else before + (seconds - before) * _WEIGHT

    @property
    def prefetch(self) -> int:
        """Jobs to hold beyond the slots."""
        if self._average is None:
            return min(self._slots, self._most_prefetch)
        return min(self._most_prefetch, max(self._ahead(_HOLD), min(self._slots, 4)))

    @property
    def start_ahead(self) -> int:
        """Jobs to start beyond the slots."""
        return 0 if self._average is None else min(self._most_ahead, self._ahead(_START_AHEAD))

    def _ahead(self, seconds: float) -> int:
        average = max(self._average or 0.0, 1e-6)
        return int(self._slots * seconds / average)
