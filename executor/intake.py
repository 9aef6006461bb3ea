"""From messages to claimed jobs."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from bson import ObjectId

from executor.allowance import Allowance
from executor.held import Holdings
from executor.metrics import DROPPED_MESSAGES
from executor.pool import Crew
from executor.starter import Starter
from jobs.broker.subscription import Received, Subscription
from jobs.lifecycle import Job
from jobs.logs import events
from jobs.loop import persist
from jobs.messages import job_id_of
from jobs.repository import Repository

logger = logging.getLogger(__name__)

_BATCH = 500
_POLL_SECONDS = 0.25
_FULL_SECONDS = 3.0


class Intake:
    """One thread for one job type: polls no more than there is room for, claims, hands on.

    Where there is no room for some seconds, it leaves the group until there is. A member that does
    not poll would keep its messages from those that have room, and newcomers from any at all.
    """

    def __init__(
        self,
        subscribe: Callable[[], Subscription],
        *,
        job_type: str,
        owner: str,
        lease: timedelta,
        repository: Repository,
        holdings: Holdings,
        started: Allowance,
        starter: Starter,
        crew: Crew,
        stop: threading.Event,
    ) -> None:
        self._subscribe = subscribe
        self._subscription: Subscription | None = None
        self._had_room_at = time.monotonic()
        self._job_type = job_type
        self._owner = owner
        self._lease = lease
        self._repository = repository
        self._holdings = holdings
        self._started = started
        self._starter = starter
        self._crew = crew
        self._stop = stop
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until no more is taken in; `stop` must be set."""
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._step()
            except Exception:
                # The reaper sends the messages again.
                extra = events.MESSAGES_NOT_TAKEN(job_type=self._job_type)
                logger.exception("messages could not be taken in", extra=extra)
                self._stop.wait(_POLL_SECONDS)
        # At once, not after the drain: the other members take the partitions over.
        self._leave()

    def _step(self) -> None:
        room = self._holdings.room
        permits = room.take(1, timeout=_POLL_SECONDS)
        if not permits:
            if time.monotonic() - self._had_room_at > _FULL_SECONDS:
                self._leave()
            return
        self._had_room_at = time.monotonic()
        try:
            self._subscription = self._subscription or self._subscribe()
            # Not its truth: a message without a value is false.
            if (message := self._subscription.poll(_POLL_SECONDS)) is not None:
                permits += room.take(_BATCH - 1)
                messages = [message, *self._subscription.more(permits - 1)]
                permits -= self._take_in(self._subscription, messages)
        finally:
            room.give(permits)

    def _leave(self) -> None:
        if self._subscription:
            self._subscription.close()
            self._subscription = None

    def _take_in(self, subscription: Subscription, messages: Sequence[Received]) -> int:
        """Claim what the messages name; how many jobs are now held."""
        named = [job_id_of(message.value()) for message in messages]
        job_ids = list(dict.fromkeys(job_id for job_id in named if job_id is not None))
        if junk := named.count(None):
            extra = events.MESSAGES_JUNK(count=junk, job_type=self._job_type)
            logger.warning("dropped %d messages that name no job", junk, extra=extra)
            DROPPED_MESSAGES.labels("junk").inc(junk)
        jobs = self._claim(job_ids) if job_ids else []
        if jobs is None:
            # Stopped while MongoDB was away: the offsets are not kept, another member sees these.
            return 0
        subscription.done(messages)
        if unclaimed := len(messages) - junk - len(jobs):
            DROPPED_MESSAGES.labels("not_queued").inc(unclaimed)
        return len(jobs)

    def _claim(self, job_ids: Sequence[ObjectId]) -> list[Job] | None:
        # A few jobs and free slots: claimed and started in one write.
        permits = 0 if self._starter.has_line else self._started.take(len(job_ids))
        start = permits == len(job_ids)
        if not start:
            self._started.give(permits)
        claim_id = secrets.token_hex(8)
        jobs: list[Job] | None = None
        try:
            jobs = persist(
                lambda: self._repository.claims.claim(
                    job_ids,
                    owner=self._owner,
                    claim_id=claim_id,
                    lease=self._lease,
                    # Anew for each try: after an outage the lease must not have ended already.
                    now=self._repository.clock.now(),
                    start=start,
                ),
                stop=self._stop,
            )
            if jobs:
                jobs = self._without_strays(jobs)
        finally:
            if start:
                self._started.give(len(job_ids) - len(jobs or ()))
        if jobs:
            helds = self._holdings.add(jobs)
            (self._crew.submit if start else self._starter.put)(helds)
        return jobs

    def _without_strays(self, jobs: Sequence[Job]) -> list[Job]:
        """Give back what a message in the wrong topic named: others have its handler."""
        strays = [job for job in jobs if job.job_type != self._job_type]
        if strays:
            claims = [(job.id, job.claim_id or "") for job in strays]
            now = self._repository.clock.now()
            logger.warning(
                "%d messages came in the topic of %s",
                len(strays),
                self._job_type,
                extra=events.MESSAGES_STRAY(count=len(strays), job_type=self._job_type),
            )
            persist(lambda: self._repository.claims.hand_back(claims, now=now), stop=self._stop)
        return [job for job in jobs if job.job_type == self._job_type]
