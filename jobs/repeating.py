"""Something done every few seconds, beside what a process is there for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from jobs.loop import Patience


class Repeater:
    """A thread that makes a call again and again, whatever goes wrong with it."""

    def __init__(self, call: Callable[[], object], *, every: timedelta, name: str) -> None:
        """Start the thread; the first call is made at once.

        Args:
            call: may raise; the outage, or the error, goes to the log.
            every: the pause between two calls.
            name: of the thread.
        """
        self._call = call
        self._pause = every.total_seconds()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Make no further call, and wait for one that is under way."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        patience = Patience(self._closing)
        while not self._closing.is_set():
            try:
                self._call()
                patience.relax()
            except Exception as exc:  # noqa: BLE001 - what is done beside must not end
                patience.bear(exc)
            self._closing.wait(self._pause)
