"""Wakes the scheduler when something becomes due before its next tick."""

from __future__ import annotations

import logging
import threading
from collections.abc import Set
from datetime import datetime, timedelta
from typing import Final

from jobs.loop import Patience
from jobs.repository import Repository
from jobs.repository.dispatch import Wake

logger = logging.getLogger(__name__)

_LOOK_MS: Final = 250


class Wakeup:
    """Sleeps until an instant, or until a change stream shows something due earlier.

    While the scheduler is busy it looks at the store anyway; then the stream is closed, so that a
    flood of inserts is not also read here.
    """

    def __init__(self, repository: Repository, *, horizon: timedelta) -> None:
        """Start the thread that follows the stream.

        Args:
            repository: whose jobs and clock.
            horizon: what is due later than this is left to the next look at the store.
        """
        self._repository = repository
        self._horizon = horizon
        self._shards: Set[int] | None = None
        self._news = threading.Condition()
        self._wakes: set[Wake] = set()
        self._interrupted = False
        self._idle = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="wakeup", daemon=True)
        self._thread.start()

    def look_after(self, shards: Set[int] | None) -> None:
        """Follow the jobs of these shards; with none, only templates. None: everything."""
        self._shards = shards
        self.interrupt()

    def pause(self) -> None:
        """Stop following until the next sleep."""
        self._idle.clear()

    def sleep(self, until: datetime) -> frozenset[str] | None:
        """Sleep, following the stream.

        Args:
            until: aware UTC, by the store's clock.

        Returns:
            The job types that became due, where only some did and all are known; None: look at all.
        """
        self._idle.set()
        with self._news:
            while not self._interrupted:
                now = self._repository.clock.now()
                due = {wake for wake in self._wakes if wake.due_at <= now}
                self._wakes -= due
                if now >= until:
                    return None
                if due:
                    types = {wake.job_type for wake in due}
                    return None if None in types else frozenset(filter(None, types))
                wake_at = min((wake.due_at for wake in self._wakes), default=until)
                self._news.wait((min(wake_at, until) - now).total_seconds())
            self._interrupted = False
            return None

    def interrupt(self) -> None:
        """End a sleep at once. May be called from a signal's or another thread."""
        with self._news:
            self._interrupted = True
            self._news.notify_all()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._idle.set()
        self._thread.join()

    def _follow(self) -> None:
        patience = Patience(self._closed)
        while not self._closed.is_set():
            self._idle.wait()
            shards = self._shards
            try:
                with self._repository.dispatch.watch(wait_ms=_LOOK_MS, shards=shards) as wakes:
                    patience.relax()
                    # What came between the last look and the stream's start was seen by neither.
                    self.interrupt()
                    for wake in wakes:
                        if wake is not None:
                            self._note(wake)
                        if self._closed.is_set() or not self._idle.is_set():
                            break
                        if self._shards is not shards:
                            break
            except Exception as exc:  # noqa: BLE001 - as in `jobs.loop.run`
                patience.bear(exc)

    def _note(self, wake: Wake) -> None:
        if wake.due_at <= self._repository.clock.now() + self._horizon:
            with self._news:
                self._wakes.add(wake)
                self._news.notify_all()
