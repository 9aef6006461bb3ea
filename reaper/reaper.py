"""The reaper: takes back what got stuck. Any number may run; each move is guarded."""

from __future__ import annotations

import logging
import random
import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from jobs import attempts
from jobs.bookkeeping import Bookkeeper
from jobs.broker.publisher import Publisher
from jobs.errors import StoreUnavailable
from jobs.lifecycle import Finish, Job, Outcome
from jobs.logs import events
from jobs.messages import dead_letter_message
from jobs.metrics import STEP_ERRORS
from jobs.repository import Repository
from reaper.metrics import JOBS_BY_STATUS, RECOVERED, TEMPLATES_OVERDUE_SECONDS

if TYPE_CHECKING:
    from chronos_site.config import ReaperConfig

logger = logging.getLogger(__name__)

_BATCH = 1000
_COUNT_LIMIT = 100_000
_AFTER_OUTAGE = timedelta(seconds=10)
# An executor announces its dead letters itself, within moments.
_ANNOUNCING = timedelta(seconds=15)


class Reaper:
    """Three sweeps over jobs in flight, and one over unannounced dead letters."""

    def __init__(
        self,
        config: ReaperConfig,
        *,
        repository: Repository,
        publisher: Publisher,
        stop: threading.Event,
    ) -> None:
        self._config = config
        self._repository = repository
        self._publisher = publisher
        self._stop = stop
        self._bookkeeper = Bookkeeper(repository.statistics)
        # Who starts now may start because MongoDB is back.
        self._had_outage = True

    def run_once(self, now: datetime) -> bool:
        """One round of sweeps. True when one of them was cut off and there is more.

        A sweep that fails does not stop the others.
        """
        more = False
        for sweep in (
            self._requeue,
            self._be_patient,
            self._reclaim,
            self._take_back,
            self._announce,
            self._take_census,
            self._look_at_templates,
        ):
            try:
                more = sweep(now) or more
            except StoreUnavailable:
                self._had_outage = True
                raise
            except Exception:
                STEP_ERRORS.inc()
                logger.exception("a sweep failed", extra=events.SWEEP_FAILED())
        return more

    def wait(self) -> None:
        """Until the next round."""
        self._stop.wait(self._config.interval.total_seconds())

    def _requeue(self, now: datetime) -> bool:
        queued_before = now - self._config.queued_timeout
        requeue = self._repository.recovery.requeue_lost_messages
        _count("queued", requeue(queued_before=queued_before, now=now))
        return False

    def _be_patient(self, now: datetime) -> bool:
        """After an outage executors get a moment to extend their leases, which they could not."""
        if self._had_outage:
            grace = min(self._config.claim_timeout / 3, _AFTER_OUTAGE)
            self._had_outage = self._stop.wait(grace.total_seconds())
        return False

    def _reclaim(self, now: datetime) -> bool:
        _count("claimed", self._repository.recovery.reclaim_unstarted(now=now))
        return False

    def _take_back(self, now: datetime) -> bool:
        expired = self._repository.recovery.expired(now=now, limit=_BATCH)
        finishes = [_lost(job, now) for job in expired]
        taken = self._repository.recovery.take_back(finishes, now=now)
        _count("running", taken)
        # Where some were finished or extended meanwhile it is not known which; charts need no more
        # than how many.
        self._bookkeeper.note(list(zip(expired, finishes, strict=True))[:taken])
        self._bookkeeper.flush()
        return len(expired) == _BATCH

    def _announce(self, now: datetime) -> bool:
        letters = self._repository.dead_letters.unannounced(before=now - _ANNOUNCING, limit=_BATCH)
        failed = set(self._publisher.publish([dead_letter_message(letter) for letter in letters]))
        arrived = [letter.id for place, letter in enumerate(letters) if place not in failed]
        if failed:
            logger.warning(
                "%d dead letters are not announced: Kafka did not take them",
                len(failed),
                extra=events.DEAD_LETTERS_UNANNOUNCED(count=len(failed)),
            )
        if arrived:
            self._repository.dead_letters.mark_announced(arrived, now=now)
            _count("dlq", len(arrived))
        return len(arrived) == _BATCH

    def _take_census(self, now: datetime) -> bool:
        for status, count in self._repository.census.by_status(limit=_COUNT_LIMIT).items():
            JOBS_BY_STATUS.labels(status).set(count)
        return False

    def _look_at_templates(self, now: datetime) -> bool:
        due_at = self._repository.templates.next_due()
        late = now - due_at if due_at else timedelta(0)
        TEMPLATES_OVERDUE_SECONDS.set(max(0.0, late.total_seconds()))
        return False


def _lost(job: Job, now: datetime) -> Finish:
    # A job that takes its executor down runs beside others that lose an attempt with it. Spread out
    # in time, they do not meet it again at the next attempt.
    spread = 0.5 + random.random()  # noqa: S311
    return attempts.failed(
        job,
        error=f"executor {job.claimed_by} gave no sign of life; the job was taken back",
        outcome=Outcome.LOST,
        started_at=job.started_at or now,
        finished_at=now,
        random=0.0,
        spread=spread,
    )


def _count(sweep: str, count: int) -> None:
    if count:
        extra = events.JOBS_RECOVERED(sweep=sweep, count=count)
        logger.warning("%s: %d jobs recovered", sweep, count, extra=extra)
        RECOVERED.labels(sweep).inc(count)
