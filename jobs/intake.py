"""Concurrent submissions share one insert, as a database's group commit shares one flush."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from jobs.errors import KeyCollision, StoreUnavailable
from jobs.lifecycle import Job

Outcome = bool | KeyCollision
InsertEach = Callable[[Sequence[Job]], list[Outcome]]


class _Entry:
    """One job on its way, and the thread that waits for it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.woken = threading.Event()
        self.outcome: Outcome | None = None
        self.error: Exception | None = None


class Intake:
    """Stores jobs for many threads.

    A thread that finds nobody inserting goes ahead at once. Those that come meanwhile wait
    together; when it is done, one of them inserts for all. So a lone request waits for nothing, and
    under load the round trips to MongoDB grow slower than the requests.
    """

    def __init__(self, insert_each: InsertEach) -> None:
        self._insert_each = insert_each
        self._lock = threading.Lock()
        self._waiting: list[_Entry] = []
        self._is_inserting = False

    def insert(self, job: Job) -> Outcome:
        """Store one job; the outcome is that of `JobStore.insert_each`.

        Raises:
            StoreUnavailable: whether it was stored is unknown.
        """
        entry = _Entry(job)
        with self._lock:
            self._waiting.append(entry)
            goes_ahead = not self._is_inserting
            self._is_inserting = True
        if not goes_ahead:
            entry.woken.wait()
        if entry.outcome is None and entry.error is None:
            self._insert_waiting()
        if entry.error is not None:
            raise entry.error
        assert entry.outcome is not None  # noqa: S101 - each batch settles its entries
        return entry.outcome

    def _insert_waiting(self) -> None:
        with self._lock:
            batch, self._waiting = self._waiting, []
        try:
            self._settle(batch)
            failed = batch[0].error if batch else None
            if failed and not isinstance(failed, StoreUnavailable) and len(batch) > 1:
                # What MongoDB has against one of them must not fail the others.
                for entry in batch:
                    self._settle([entry])
        finally:
            for entry in batch:
                entry.woken.set()
            with self._lock:
                self._is_inserting = bool(self._waiting)
                if self._waiting:
                    self._waiting[0].woken.set()

    def _settle(self, batch: Sequence[_Entry]) -> None:
        try:
            outcomes = self._insert_each([entry.job for entry in batch])
            for entry, outcome in zip(batch, outcomes, strict=True):
                entry.outcome, entry.error = outcome, None
        except Exception as exc:  # noqa: BLE001 - raised again by each waiting thread
            for entry in batch:
                entry.error = exc
