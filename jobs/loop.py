"""The loop that every role runs: steps, sleeps, and patience while a server is away."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from datetime import datetime
from queue import SimpleQueue
from typing import Final, Protocol, TypeVar

from jobs.errors import (
    BrokerUnavailable,
    ElectionUnavailable,
    StoreRefused,
    StoreUnavailable,
)
from jobs.logs import events
from jobs.metrics import STEP_ERRORS

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0


class Steps(Protocol):
    """A role's work, in steps."""

    def run_once(self, now: datetime) -> bool:
        """Do one step. True: call again at once."""

    def wait(self) -> None:
        """Sleep until there may be work. Returns early when the loop must look whether to stop."""


class Patience:
    """Growing pauses while something is away, told to the log once per outage."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._pause = 0.0

    def bear(self, error: Exception) -> None:
        """Wait a little longer than the last time, or until stop."""
        expected = isinstance(error, StoreUnavailable | BrokerUnavailable | ElectionUnavailable)
        if not expected:
            STEP_ERRORS.inc()
        if not self._pause:
            logger.warning(
                "trying again until it works: %s",
                error,
                exc_info=None if expected else error,
                extra=events.OUTAGE_BEGAN(error=error),
            )
        self._pause = min(max(self._pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._stop.wait(self._pause)

    def relax(self) -> None:
        """It worked."""
        if self._pause:
            logger.info("works again", extra=events.OUTAGE_OVER())
        self._pause = 0.0


def run(steps: Steps, *, clock: Callable[[], datetime], stop: threading.Event) -> None:
    """Step until `stop` is set. No error ends the loop: it waits and tries again."""
    patience = Patience(stop)
    while not stop.is_set():
        try:
            more = steps.run_once(clock())
            patience.relax()
            if not more and not stop.is_set():
                steps.wait()
        except Exception as exc:  # noqa: BLE001 - a role outlives every failing step
            patience.bear(exc)


def persist(call: Callable[[], T], *, stop: threading.Event) -> T | None:
    """Repeat a call until its server answers; None when `stop` was set first.

    Raises:
        StoreRefused: waiting does not mend a wrong password.
    """
    patience = Patience(stop)
    while True:
        try:
            result = call()
        except StoreRefused:
            raise
        except (StoreUnavailable, BrokerUnavailable) as exc:
            if stop.is_set():
                return None
            patience.bear(exc)
        else:
            patience.relax()
            return result


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    received: SimpleQueue[int] = SimpleQueue()

    def wait_for_signal() -> None:
        name = signal.Signals(received.get()).name
        logger.info("stopping on %s", name, extra=events.ROLE_STOPPING(signal=name))
        stop.set()

    threading.Thread(target=wait_for_signal, name="signals", daemon=True).start()
    for signum in (signal.SIGTERM, signal.SIGINT):
        # The handler may interrupt code that holds the event's lock, or the log's: it takes none.
        signal.signal(signum, lambda signum, _: received.put(signum))
    return stop
