"""Tells `jobs.dlq` about dead letters, apart from the writer so that Kafka can be away."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue

from executor.batches import batches
from jobs.broker.publisher import Publisher
from jobs.errors import StoreUnavailable
from jobs.lifecycle import Finish, Job
from jobs.logs import events
from jobs.messages import dead_letter_message
from jobs.repository import Repository
from jobs.repository.dead_letters import DeadLetter

logger = logging.getLogger(__name__)

_BATCH = 1000


class Announcer:
    """One thread. What it cannot announce, the reaper will."""

    def __init__(self, repository: Repository, publisher: Publisher) -> None:
        self._repository = repository
        self._publisher = publisher
        self._queue: SimpleQueue[DeadLetter | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)
        self._thread.start()

    def put(self, job: Job, finish: Finish) -> None:
        """Announce a job that has durably become a dead letter."""
        self._queue.put(
            DeadLetter(
                job.id,
                job.tenant_id,
                job.job_type,
                job.idempotency_key,
                finish.attempts,
                finish.last_error or "",
            )
        )

    def close(self) -> None:
        """Announce what is left, then end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        for letters in batches(self._queue, limit=_BATCH):
            self._announce(letters)

    def _announce(self, letters: list[DeadLetter]) -> None:
        failed = set(self._publisher.publish([dead_letter_message(each) for each in letters]))
        arrived = [each.id for place, each in enumerate(letters) if place not in failed]
        if failed:
            extra = events.DEAD_LETTERS_UNANNOUNCED(count=len(failed))
            logger.warning(
                "%d dead letters are left to the reaper to announce", len(failed), extra=extra
            )
        try:
            if arrived:
                now = self._repository.clock.now()
                self._repository.dead_letters.mark_announced(arrived, now=now)
        except StoreUnavailable as exc:
            logger.warning(
                "the reaper will announce %d dead letters again: %s",
                len(arrived),
                exc,
                extra=events.DEAD_LETTERS_UNANNOUNCED(count=len(arrived), error=exc),
            )
