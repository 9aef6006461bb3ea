"""Sending at fixed times, however slow the answers are (an open loop).

A client that waits for one answer before it sends the next request slows down together with the
server and so hides just the worst latencies: "coordinated omission". Here every request has its
time before the first is sent, and latency counts from that time.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the jobs in one request."""

    accepted: Sequence[int]
    """Their numbers."""
    problems: Counter[str]
    """Why others were not accepted, and how many each."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One request; instants are seconds of a monotonic clock."""

    due_at: float
    """When it was to be sent."""
    free_at: float
    """When a connection was free for it: later than due when all were busy."""
    sent_at: float
    answered_at: float
    outcome: Outcome

    @property
    def latency(self) -> float:
        """Seconds from when it was to be sent."""
        return self.answered_at - self.due_at

    @property
    def own_delay(self) -> float:
        """Seconds that this process lost before sending: too busy, or not woken in time."""
        return self.sent_at - max(self.due_at, self.free_at)

    @property
    def had_to_wait(self) -> bool:
        """Whether all connections were busy when it was due."""
        return self.free_at > self.due_at


class Sender:
    """Sends requests from several threads, one connection each.

    Args:
        send: called with a request's number; returns when it is answered, and never raises for
            what the API or the network do.
        connections: requests on their way at once, at most.
        now: a monotonic clock, seconds.
        sleep: waits so many seconds; None: until then, or until the sending is broken off.
    """

    def __init__(
        self,
        send: Callable[[int], Outcome],
        *,
        connections: int,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._send = send
        self._connections = connections
        self._now = now
        self._broken_off = threading.Event()
        self._sleep = sleep or self._broken_off.wait
        # Whose turn it is waits for its time with this in hand; the others queue up behind it.
        self._turn = threading.Lock()

    def run(self, due_times: Sequence[float], on_answer: Callable[[int], None]) -> list[Sent]:
        """Send one request at each of these times, in order.

        Args:
            due_times: ascending, by the clock `now`.
            on_answer: told after each answer how many there are, from any thread.
        """
        # Connections are free from here on: what the threads need to start is this client's delay.
        began_at = self._now()
        requests = enumerate(due_times)
        sent: list[Sent] = []
        threads = min(self._connections, len(due_times))
        with ThreadPoolExecutor(threads, "sender") as pool:
            workers = [
                pool.submit(self._work, requests, sent, on_answer, began_at) for _ in range(threads)
            ]
            try:
                for worker in workers:
                    worker.result()
            finally:
                self._broken_off.set()
        return sorted(sent, key=lambda request: request.due_at)

    def _work(
        self,
        requests: Iterator[tuple[int, float]],
        sent: list[Sent],
        on_answer: Callable[[int], None],
        free_at: float,
    ) -> None:
        while not self._broken_off.is_set():
            with self._turn:
                number, due_at = next(requests, (-1, 0.0))
                if number < 0:
                    return
                if (early := due_at - self._now()) > 0:
                    self._sleep(early)
            sent_at = self._now()
            outcome = self._send(number)
            answered_at = self._now()
            sent.append(Sent(due_at, free_at, sent_at, answered_at, outcome))
            free_at = answered_at
            on_answer(len(sent))
