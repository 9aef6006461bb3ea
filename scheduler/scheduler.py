"""The scheduler: while it leads, it fires due templates and dispatches due jobs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from jobs.broker.publisher import Publisher
from jobs.logs import events
from jobs.loop import run
from jobs.repository import Repository
from scheduler.dispatcher import Dispatcher
from scheduler.firing import Firing
from scheduler.leadership import Elector, Term
from scheduler.metrics import FANS_OUT, IS_LEADER
from scheduler.resuming import Resuming
from scheduler.timekeeper import Chore, Timekeeper
from scheduler.triggering import Triggering

if TYPE_CHECKING:
    from chronos_site.config import SchedulerConfig

logger = logging.getLogger(__name__)


class Scheduler:
    """One candidate: waits until it leads, then steps until its term is over.

    Where it fans out, it leaves the jobs to fan-out workers and announces to them each minute in
    which some are due.
    """

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
        self._fans_out = config.fans_out
        FANS_OUT.set(config.fans_out)
        self._repository = repository
        self._publisher = publisher
        self._resuming = Resuming(repository)
        self._firing = Firing(repository, batch=config.cron_batch, grace=config.misfire_grace)
        self._dispatcher = Dispatcher(
            repository, publisher, job_types=job_types, batch=config.claim_batch
        )
        self._timekeeper = Timekeeper(repository, config, self._dispatcher)
        if config.fans_out:
            self._timekeeper.look_after(frozenset())
        self._over = threading.Event()
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
        self._timekeeper.close()

    def _end_term_on(self, stop: threading.Event) -> None:
        stop.wait()
        self._end_term()

    def _end_term(self) -> None:
        self._over.set()
        self._timekeeper.interrupt()

    def _lead(self, term: Term) -> None:
        extra = events.LEADER_ELECTED(term=term.number)
        logger.info("%s leads, term %d", self._name, term.number, extra=extra)
        self.term = term
        self._timekeeper.begin(self._chores(term))
        if not self._fans_out:
            self._timekeeper.take_over(None)
        IS_LEADER.set(1)
        try:
            run(self, clock=self._repository.clock.now, stop=self._over)
        finally:
            self._timekeeper.pause()
            self.term = None
            IS_LEADER.set(0)

    def _chores(self, term: Term) -> list[Chore]:
        if not self._fans_out:
            return [self._resuming, self._firing]
        triggering = Triggering(
            self._repository,
            self._publisher,
            owner=self._name,
            term=term.number,
            job_types=lambda: self._dispatcher.job_types,
        )
        # First the runs are there, then their minute is announced.
        return [self._resuming, self._firing, triggering]

    def run_once(self, now: datetime) -> bool:
        """Do what a leader does; True when there is more to do at once."""
        if self.term is None or not self.term.is_valid():
            return False
        return self._timekeeper.run_once(now)

    def wait(self) -> None:
        """Sleep until there is something to do."""
        self._timekeeper.wait()
