"""The scheduler: while it leads, it fires due templates and dispatches due jobs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from jobs.broker.publisher import Publisher
from jobs.loop import run
from jobs.repository import Repository
from scheduler.dispatcher import Dispatched, Dispatcher
from scheduler.firing import Firing
from scheduler.leadership import Elector, Term
from scheduler.metrics import IS_LEADER, TICK_SECONDS
from scheduler.wakeup import Wakeup

if TYPE_CHECKING:
    from chronos_site.env import SchedulerConfig

logger = logging.getLogger(__name__)

_SHORTEST_LOOK = timedelta(milliseconds=10)
# Each look costs the store a count of all jobs in flight, so it should find room for many.
_LITTLE_FREE = 0.1
_MUCH_FREE = 0.3


class Scheduler:
    """One candidate: waits until it leads, then steps until its term is over."""

    def __init__(
        self,
        name: str,
        config: SchedulerConfig,
        *,
        repository: Repository,
        publisher: Publisher,
        job_types: Iterable[str],
    ) -> None:
        """A scheduler.

        Args:
            name: unique per process.
            config: tick and batches.
            repository: where the jobs are.
            publisher: where the wake-ups go.
            job_types: the types that have a handler here; those of live executors are added.
        """
        self._name = name
        self._config = config
        self._repository = repository
        self._firing = Firing(repository, batch=config.cron_batch, grace=config.misfire_grace)
        self._dispatcher = Dispatcher(
            repository, publisher, job_types=job_types, batch=config.claim_batch
        )
        self._wakeup = Wakeup(repository, horizon=config.tick)
        self._over = threading.Event()
        self._woken: frozenset[str] | None = None
        self._next_look_at: datetime | None = None
        self._full_pause = timedelta(0)
        self.term: Term | None = None

    def run(self, elector: Elector, stop: threading.Event) -> None:
        """Campaign and lead, term after term, until `stop` is set."""
        threading.Thread(target=self._end_term_on, args=(stop,), daemon=True).start()
        while not stop.is_set():
            self._over.clear()
            term = elector.campaign(stop, self._end_term)
            if term is not None:
                try:
                    # Looked at again, as `stop` may have come just before `clear`.
                    if not stop.is_set():
                        self._lead(term)
                finally:
                    term.resign()
        self._wakeup.close()

    def _end_term_on(self, stop: threading.Event) -> None:
        stop.wait()
        self._end_term()

    def _end_term(self) -> None:
        self._over.set()
        self._wakeup.interrupt()

    def _lead(self, term: Term) -> None:
        logger.info("%s leads, term %d", self._name, term.number)
        self.term = term
        self._woken = None
        IS_LEADER.set(1)
        try:
            run(self, clock=self._repository.clock.now, stop=self._over)
        finally:
            self._wakeup.pause()
            self.term = None
            IS_LEADER.set(0)

    def run_once(self, now: datetime) -> bool:
        """Fire, dispatch; True when there is more to do at once."""
        if self.term is None or not self.term.is_valid():
            return False
        with TICK_SECONDS.time():
            only, self._woken = self._woken, None
            if only is None:
                self._next_look_at = None
            more = only is None and self._firing.step(now)
            sent = self._dispatcher.step(now, only)
        self._note_fullness(sent)
        if more or sent.has_more:
            # The store is looked at anyway; a flood of inserts need not be read here as well.
            self._wakeup.pause()
            return True
        return False

    def _note_fullness(self, sent: Dispatched) -> None:
        """Look at full executors as often as a good part of them has become free."""
        if not sent.is_full:
            self._full_pause = timedelta(0)
        elif not self._full_pause or sent.fill > _MUCH_FREE:
            self._full_pause = max(self._full_pause / 2, _SHORTEST_LOOK)
        elif sent.fill < _LITTLE_FREE:
            self._full_pause = min(self._full_pause * 2, self._config.tick)

    def wait(self) -> None:
        """Sleep until the next due time, a wake-up, or the tick, whichever is first."""
        now = self._repository.clock.now()
        if self._next_look_at is None:
            self._next_look_at = self._find_next_look(now)
        until = self._next_look_at
        if self._full_pause:
            until = min(until, now + self._full_pause)
        self._woken = self._wakeup.sleep(until)

    def _find_next_look(self, now: datetime) -> datetime:
        """The earliest due time within a tick; what is inserted later shows in the stream."""
        tick = now + self._config.tick
        store = self._repository
        candidates = [store.templates.next_due()] + [
            store.dispatch.next_due(job_type, after=now, until=tick)
            for job_type in self._dispatcher.open_types
        ]
        return min([tick, *(at for at in candidates if at is not None)])
