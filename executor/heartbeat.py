"""What goes on all the time: leases kept, losses and time-outs noticed, capacity told."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from executor.allowance import Allowance
from executor.held import Held, Holdings
from executor.metrics import BUSY, CAPACITY, LOST_CLAIMS
from executor.pace import Pace
from executor.pool import Crew, Pool
from executor.starter import Starter
from jobs.errors import StoreUnavailable
from jobs.logs import events
from jobs.logs.fields import of_job
from jobs.repository import Repository
from jobs.repository.claims import Claim
from jobs.repository.nodes import Node

logger = logging.getLogger(__name__)

_TICK_SECONDS = 0.1
_REPORT_SECONDS = 2.0
_LOSS_SECONDS = 1.0
# Reports for smaller changes than this would only follow the noise.
_NOTABLE_CHANGE = 1.25
_MUCH_TOO_MUCH = 2


class Heartbeat:
    """One thread that beats for all held jobs at once."""

    def __init__(
        self,
        node: Node,
        *,
        lease: timedelta,
        pool: Pool,
        repository: Repository,
        holdings: Holdings,
        started: Allowance,
        starter: Starter,
        crew: Crew,
        pace: Pace,
        spare_room: int,
    ) -> None:
        """Start the thread.

        Args:
            node: this executor; its capacity is kept up to date here.
            lease: how long a claim holds; extended each third of it.
            pool: what is served.
            repository: where leases and the report go.
            holdings: what is held.
            started: resized as handlers prove fast or slow.
            starter: told to give back what is held too much.
            crew: told to abandon lost jobs.
            pace: how fast handlers are.
            spare_room: permits of room that polling itself takes.
        """
        self._node = node
        self._lease = lease
        self._slots = pool.slots
        self._pool = pool.name
        self._capacity_shown = CAPACITY.labels(pool.name)
        self._repository = repository
        self._holdings = holdings
        self._started = started
        self._starter = starter
        self._crew = crew
        self._pace = pace
        self._spare_room = spare_room
        self._extended_at = self._looked_at = self._reported_at = float("-inf")
        self._capacity = 0
        self._draining = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def drain(self) -> None:
        """Report from now on that nothing more is taken."""
        self._draining = True

    def close(self) -> None:
        """End the thread and leave the register of live processes."""
        self._closing.set()
        self._thread.join()
        try:
            self._repository.nodes.remove(self._node.name)
        except StoreUnavailable as exc:
            extra = events.STILL_REGISTERED(error=exc)
            logger.warning("still registered as alive, for some seconds: %s", exc, extra=extra)

    def _run(self) -> None:
        while not self._closing.wait(min(_TICK_SECONDS, self._lease.total_seconds() / 10)):
            try:
                self._beat(time.monotonic())
            except StoreUnavailable as exc:
                # The leases last three beats; handlers go on, and their ends are written later.
                extra = events.HEARTBEAT_MISSED(error=exc)
                logger.warning("no sign of life could be given: %s", exc, extra=extra)
            except Exception:
                logger.exception("a heartbeat failed", extra=events.HEARTBEAT_FAILED())

    def _beat(self, at: float) -> None:
        self._crew.expire(self._holdings.all(), at)
        self._resize(at)
        if at - self._extended_at >= self._lease.total_seconds() / 3:
            self._extend()
            self._extended_at = at
        elif at - self._looked_at >= _LOSS_SECONDS:
            self._look_for_losses(at)
            self._looked_at = at

    def _resize(self, at: float) -> None:
        capacity = 0 if self._draining else self._slots + self._pace.prefetch
        self._started.limit = self._slots + self._pace.start_ahead
        low, high = sorted((capacity, self._capacity))
        if high > low * _NOTABLE_CHANGE or at - self._reported_at >= _REPORT_SECONDS:
            now = self._repository.clock.now()
            self._holdings.room.limit = capacity + self._spare_room
            busy = self._holdings.count_working()
            for job_type in self._node.job_types:
                BUSY.labels(self._pool, job_type).set(busy[job_type])
            node = replace(
                self._node,
                capacity=capacity,
                slots=self._slots,
                busy=busy.total(),
                is_draining=self._draining,
            )
            self._repository.nodes.report(node, now=now)
            self._capacity = capacity
            self._reported_at = at
            self._capacity_shown.set(capacity)
            self._shed(capacity)

    def _shed(self, capacity: int) -> None:
        """Give back what handlers that became slow will not get to soon; others may."""
        held = len(self._holdings)
        if held > max(capacity, self._slots) * _MUCH_TOO_MUCH:
            extra = events.JOBS_TOO_MANY(held=held, capacity=capacity)
            logger.info(
                "holding %d jobs, with room for %d: giving back", held, capacity, extra=extra
            )
            self._starter.give_back(held - capacity)

    def _extend(self) -> None:
        helds = self._holdings.all()
        if helds:
            until = self._repository.clock.now() + self._lease
            lost = self._repository.claims.extend([held.claim for held in helds], until=until)
            self._let_go(helds, lost)

    def _look_for_losses(self, at: float) -> None:
        """Notice a cancelled job long before its lease is extended."""
        helds = [
            held
            for held in self._holdings.all()
            if held.working_since is not None and at - held.working_since > _LOSS_SECONDS
        ]
        if helds:
            self._let_go(helds, self._repository.claims.lost([held.claim for held in helds]))

    def _let_go(self, helds: Iterable[Held], lost: set[Claim]) -> None:
        for held in helds:
            # One whose end is being written also matches no more; it has been settled.
            if held.claim in lost and held.settle():
                extra = events.CLAIM_LOST(**of_job(held.job))
                logger.info("cancelled, or taken away", extra=extra)
                LOST_CLAIMS.inc()
                self._crew.abandon(held)
                self._holdings.release([held])
