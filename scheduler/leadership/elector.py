"""Who leads: the protocol every election backend follows, and the term that a winner holds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final, Protocol

from jobs.errors import ElectionUnavailable
from jobs.logs import events

logger = logging.getLogger(__name__)

RENEWALS: Final = 3
"""Renewals per TTL. One that failed is repeated ten times as soon."""
MARGIN: Final = 0.2
"""Share of the TTL a leader gives up: for clocks of unequal speed, and for the step under way."""
_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def uptime() -> float:
    """Seconds on a clock that nobody can set; on Linux it also counts while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class Unanswered(ElectionUnavailable):
    """No usable answer. Whether the call took effect is unknown: repeat it, perhaps elsewhere."""


class Elector(Protocol):
    """Takes part in one election on behalf of this process."""

    def campaign(
        self, stop: threading.Event, on_lost: Callable[[], None] | None = None
    ) -> Term | None:
        """Wait until this process leads. A term won earlier ends first.

        Args:
            stop: gives up waiting, within half a second.
            on_lost: called once when the term ends, from whichever thread notices; must be quick.

        Returns:
            The term, or None when `stop` was set.

        Raises:
            ElectionUnavailable: the backend refuses for a reason that waiting cannot cure.
        """


class Claim(Protocol):
    """What a backend keeps for a leader: the thing that makes everybody else wait."""

    def renew(self, deadline: float, abandon: threading.Event) -> bool:
        """Extend the claim by a whole TTL. False: it is gone.

        Args:
            deadline: on the clock of `uptime`.
            abandon: ends the attempt at once.

        Raises:
            ElectionUnavailable: no answer by `deadline`, or abandoned; the claim may live or not.
        """

    def release(self) -> None:
        """Give the claim up, so that nobody waits for the TTL. Best effort, in half a second."""


class Term:
    """The time in which this process leads. Over once and for all when `lost` is set.

    Renews itself in a thread. Trusted only until the *start* of the last successful renewal + TTL −
    margin: safely before the backend lets anybody else lead, however late its answer came.
    """

    def __init__(
        self,
        number: int,
        claim: Claim,
        *,
        ttl: timedelta,
        since: float,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        """Begin a term and its renewing thread.

        Args:
            number: fencing number, larger than that of every earlier term.
            claim: what to renew, and to release at the end.
            ttl: how long the backend keeps the claim after a renewal.
            since: when the latest renewal was started, on the clock of `uptime`.
            on_lost: see `Elector.campaign`.
        """
        self.number = number
        self.lost = threading.Event()
        self._claim = claim
        self._ttl = ttl.total_seconds()
        self._trusted_until = since + self._ttl * (1 - MARGIN)
        self._on_lost = on_lost
        self._ending = threading.Lock()
        self._released = False
        self._renewing = threading.Thread(
            target=self._renew_until_lost, name=f"term-{number}", daemon=True
        )
        self._renewing.start()

    def is_valid(self) -> bool:
        """Whether this process still leads: cheap, to be asked before every step.

        Asks the clock, not the renewing thread: a process continued after SIGSTOP may run any of
        its threads first.
        """
        if uptime() >= self._trusted_until:
            self._end("could not be renewed in time")
        return not self.lost.is_set()

    def resign(self) -> None:
        """End the term and let a standby lead at once. Takes a second at most; idempotent."""
        self._end("resigned", is_expected=True)
        if self._renewing is not threading.current_thread():
            self._renewing.join()
        with self._ending:
            released, self._released = self._released, True
        if not released:
            self._claim.release()

    def _end(self, reason: str, *, is_expected: bool = False) -> None:
        with self._ending:
            if self.lost.is_set():
                return
            self.lost.set()
        if is_expected:
            extra = events.LEADER_RESIGNED(term=self.number)
            logger.info("term %d is over: %s", self.number, reason, extra=extra)
        else:
            extra = events.LEADER_LOST(term=self.number, error=reason)
            logger.warning("term %d is over: %s", self.number, reason, extra=extra)
        if self._on_lost:
            self._on_lost()

    def _renew_until_lost(self) -> None:
        pause = self._ttl / RENEWALS
        failing = False
        while not self.lost.wait(min(pause, max(0.0, self._trusted_until - uptime()))):
            if not self.is_valid():
                return
            started = uptime()
            # Half the interval, so that another member of the cluster can still be asked in time.
            deadline = min(started + self._ttl / RENEWALS / 2, self._trusted_until)
            try:
                held = self._claim.renew(deadline, self.lost)
            except ElectionUnavailable as exc:
                if not failing and not self.lost.is_set():
                    extra = events.LEADER_NOT_RENEWED(term=self.number, error=exc)
                    logger.warning("term %d is not renewed: %s", self.number, exc, extra=extra)
                failing = True
                pause = self._ttl / RENEWALS / 10
                continue
            if not held:
                self._end("the claim is gone")
                return
            self._trusted_until = started + self._ttl * (1 - MARGIN)
            failing = False
            pause = self._ttl / RENEWALS
