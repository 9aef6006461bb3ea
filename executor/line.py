"""The jobs that are claimed and wait to be started."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from executor.held import Held


class Line:
    """First come, first served within a job type; the types take turns.

    One line for all would let a hundred slow jobs stand before a fast one.
    """

    def __init__(self) -> None:
        self._by_type: dict[str, deque[Held]] = {}
        self._turns: deque[str] = deque()
        self._lock = threading.Lock()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, helds: Iterable[Held]) -> None:
        """Add jobs, in this order."""
        with self._lock:
            for held in helds:
                waiting = self._by_type.setdefault(held.job.job_type, deque())
                if not waiting:
                    self._turns.append(held.job.job_type)
                waiting.append(held)
                self._length += 1

    def take(self, count: int) -> list[Held]:
        """Remove the next `count` jobs, or all that there are."""
        taken: list[Held] = []
        with self._lock:
            while self._turns and len(taken) < count:
                job_type = self._turns.popleft()
                waiting = self._by_type[job_type]
                taken.append(waiting.popleft())
                if waiting:
                    self._turns.append(job_type)
            self._length -= len(taken)
        return taken

    def take_last(self, count: int) -> list[Held]:
        """Remove the `count` jobs that would be taken last, or all that there are."""
        taken: list[Held] = []
        with self._lock:
            while self._turns and len(taken) < count:
                job_type = max(self._turns, key=lambda each: len(self._by_type[each]))
                waiting = self._by_type[job_type]
                taken.append(waiting.pop())
                if not waiting:
                    self._turns.remove(job_type)
            self._length -= len(taken)
        return taken
