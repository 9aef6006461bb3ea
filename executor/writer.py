"""Writes the ends of attempts: what collects while one write is under way goes into the next."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from queue import SimpleQueue

from executor.announcer import Announcer
from executor.batches import batches
from executor.held import Held, Holdings
from executor.metrics import JOBS, LOST_CLAIMS
from jobs.attempts import tell_end
from jobs.bookkeeping import Bookkeeper
from jobs.executions import execution_of
from jobs.lifecycle import Finish, Status
from jobs.logs import events
from jobs.loop import persist
from jobs.repository import Repository

logger = logging.getLogger(__name__)

_BATCH = 1000

Ending = tuple[Held, Finish]


class Writer:
    """One thread. A job is released only when MongoDB has acknowledged its end."""

    def __init__(
        self,
        repository: Repository,
        holdings: Holdings,
        announcer: Announcer,
        bookkeeper: Bookkeeper,
        give_up: threading.Event,
    ) -> None:
        """Start the thread.

        Args:
            repository: where the ends go.
            holdings: what to release.
            announcer: told of each dead letter.
            bookkeeper: counts the ends.
            give_up: set when MongoDB is no longer waited for.
        """
        self._repository = repository
        self._holdings = holdings
        self._announcer = announcer
        self._bookkeeper = bookkeeper
        self._give_up = give_up
        self._queue: SimpleQueue[Ending | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def put(self, held: Held, finish: Finish) -> None:
        """Have an end written. `held` must have been settled by the caller."""
        self._queue.put((held, finish))

    def close(self) -> None:
        """Write what is left, then end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        for batch in batches(self._queue, limit=_BATCH):
            self._write(batch)

    def _write(self, batch: Sequence[Ending]) -> None:
        try:
            self._store(batch)
        except Exception:  # one refused document must not take its batch along
            logger.exception(
                "a batch of %d ends was refused, writing one by one",
                len(batch),
                extra=events.ENDS_REFUSED(count=len(batch)),
            )
            for ending in batch:
                self._write_alone(ending)
        self._holdings.release([held for held, _ in batch])

    def _write_alone(self, ending: Ending) -> None:
        try:
            self._store([ending])
        except Exception:
            # Its lease ends, and the reaper makes it a failed attempt.
            extra = events.END_REFUSED(job_id=str(ending[1].job_id))
            logger.exception("an end was refused", extra=extra)

    def _store(self, batch: Sequence[Ending]) -> None:
        finishes = [finish for _, finish in batch]
        executions = [execution_of(held.job, finish) for held, finish in batch]
        now = self._repository.clock.now()

        def write() -> int:
            # Before the ends, so that none is written whose record a crash could still prevent.
            self._repository.executions.record(executions)
            return self._repository.claims.finish(finishes, now=now)

        written = persist(write, stop=self._give_up)
        if written is None:
            extra = events.ENDS_LOST(count=len(batch))
            logger.error("%d ends were not written: MongoDB is away", len(batch), extra=extra)
            return
        LOST_CLAIMS.inc(len(batch) - written)
        self._bookkeeper.note((held.job, finish) for held, finish in batch)
        for held, finish in batch:
            JOBS.labels(held.job.job_type, finish.attempt.outcome).inc()
            tell_end(held.job, finish)
            if finish.status is Status.DLQ:
                self._announcer.put(held.job, finish)
