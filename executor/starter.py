"""Moves claimed jobs on to running, as many as the handlers can begin soon."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence

from executor.allowance import Allowance
from executor.held import Held, Holdings
from executor.line import Line
from executor.metrics import LOST_CLAIMS
from executor.pool import Crew
from jobs.logs import events
from jobs.loop import persist
from jobs.repository import Repository

logger = logging.getLogger(__name__)

_BATCH = 500
_LOOK_SECONDS = 0.5


class Starter:
    """One thread, and the line of jobs that are claimed and not yet started."""

    def __init__(
        self,
        repository: Repository,
        holdings: Holdings,
        started: Allowance,
        crew: Crew,
        stop: threading.Event,
    ) -> None:
        """Start the thread.

        Args:
            repository: where the starts are written.
            holdings: what to release when a claim is gone.
            started: permits of started jobs.
            crew: who runs them.
            stop: ends the thread.
        """
        self._repository = repository
        self._holdings = holdings
        self._started = started
        self._crew = crew
        self._stop = stop
        self._line = Line()
        self._filled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="starter", daemon=True)
        self._thread.start()

    @property
    def has_line(self) -> bool:
        """Whether somebody waits; a newcomer must then wait too."""
        return len(self._line) > 0

    def put(self, helds: Sequence[Held]) -> None:
        """Have claimed jobs started, in this order."""
        self._line.put(helds)
        self._filled.set()

    def give_back(self, count: int) -> None:
        """Hand back `count` jobs that wait, the last ones first; costs no attempt.

        Raises:
            StoreUnavailable: the reaper takes them back when their leases end.
        """
        waiting = self._crew.withdraw()
        waiting += self._line.take_last(count - len(waiting))
        helds = [held for held in waiting if held.settle()]
        try:
            if helds:
                now = self._repository.clock.now()
                self._repository.claims.hand_back([held.claim for held in helds], now=now)
        finally:
            self._holdings.release(helds)

    def close(self) -> None:
        """End the thread; `stop` must be set."""
        self._filled.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self.has_line:
                self._filled.wait()
                self._filled.clear()
                continue
            permits = self._started.take(min(len(self._line), _BATCH), timeout=_LOOK_SECONDS)
            if permits:
                helds = self._line.take(permits)
                try:
                    self._start(helds)
                except Exception:
                    extra = events.STARTS_FAILED(count=len(helds))
                    logger.exception("%d jobs could not be started", len(helds), extra=extra)
                    self._started.give(permits)
                    self._let_go(helds)

    def _start(self, helds: Sequence[Held]) -> None:
        by_claim = {held.claim: held for held in helds if not held.is_settled}
        started_at = self._repository.clock.now()
        running = persist(
            lambda: self._repository.claims.start(list(by_claim), now=started_at), stop=self._stop
        )
        going = [by_claim.pop(claim) for claim in list(by_claim) if claim in (running or ())]
        for held in going:
            held.started_at = started_at
        self._started.give(len(helds) - len(going))
        self._crew.submit(going)
        if running is not None:
            # Reaped or cancelled while they waited in line.
            self._let_go(by_claim.values())

    def _let_go(self, helds: Iterable[Held]) -> None:
        """Hold these no longer: what is still ours, the reaper takes back when its lease ends."""
        lost = [held for held in helds if held.settle()]
        LOST_CLAIMS.inc(len(lost))
        self._holdings.release(lost)
