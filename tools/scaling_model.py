"""A model of executors that KEDA scales: what it sees, when it looks, and what comes of it.

The credit and what executors hold ahead are the scheduler's and the executor's own code. KEDA's and
Kubernetes' rules, with their sources, and what is left out: docs/scaling.md.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from executor.pace import Pace
from jobs.repository.dispatch import InFlight
from jobs.repository.nodes import Node
from scheduler.credit import credits

TYPE: Final = "modelled"
LOOK: Final = 0.5
"""Seconds between two looks of the scheduler, and between two steps of the model."""
_BATCH: Final = 1000
_MOST_COUNTED: Final = 10_000
_LONG_AGO: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Plant:
    """What there is of everything; seconds."""

    slots: int = 16
    most_prefetch: int = 2000
    drain_timeout: float = 30.0
    report: float = 2.0
    """Between two reports of an executor's capacity."""
    count: float = 5.0
    """Between two counts of the due jobs by the reaper."""
    sweep: float = 30.0
    """REAPER_INTERVAL."""
    queued_timeout: float = 30.0
    scrape: float = 15.0
    start: float = 20.0
    """From the decision to start an executor until it takes in jobs."""


@dataclass(frozen=True, slots=True)
class Signals:
    """A ScaledObject: what each executor is to have of it. None: there is no such trigger."""

    lag: float | None = None
    due: float | None = None
    busy: float | None = None
    most: int = 12
    """Executors."""
    polling: float = 15.0
    cooldown: float = 300.0
    average: float = 60.0
    """What `busy` is the average of."""
    sync: float = 15.0
    tolerance: float = 0.1
    stabilization: float = 300.0
    """When scaling down."""


@dataclass(frozen=True, slots=True)
class Load:
    """Jobs by their due times, in order, and how long their handlers take."""

    due: Sequence[float]
    handler: float
    horizon: float
    """How long is looked at."""


@dataclass(slots=True)
class Executor:
    """One pod."""

    name: str
    ready_at: float
    pace: Pace
    running: list[tuple[float, float]] = field(default_factory=list)
    """When each ends, and when it was due; the next to end first."""
    waiting: deque[float] = field(default_factory=deque)
    capacity: int = 0
    """As reported last."""
    ends_at: float | None = None
    """When it drains: when it hands back what runs."""
    busy: deque[tuple[float, int]] = field(default_factory=deque)
    """As scraped: when, how many ran."""

    @property
    def held(self) -> int:
        return len(self.running) + len(self.waiting)


@dataclass(slots=True)
class Result:
    """What came of it."""

    peak: int = 0
    """Due jobs that waited in MongoDB, at most."""
    lags: list[float] = field(default_factory=list)
    """From due to handler start, of each start."""
    done: int = 0
    last_end: float = 0.0
    interrupted: int = 0
    """Handlers that did not end within the drain, and were begun again elsewhere."""
    replicas: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])
    """Each change: when, to how many."""
    pod_seconds: float = 0.0

    @property
    def most(self) -> int:
        """Executors at the same time."""
        return max(count for _, count in self.replicas)

    @property
    def reversals(self) -> int:
        """How often executors were added soon (in 15 minutes) after some had been taken away."""
        found, fell_at = 0, -math.inf
        for (_, before), (at, after) in zip(self.replicas, self.replicas[1:], strict=False):
            if after < before:
                fell_at = at
            elif at - fell_at < 900:
                found += 1
                fell_at = -math.inf
        return found


class Autoscaler:
    """KEDA and the HorizontalPodAutoscaler that it makes."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._active_at = -math.inf
        self._wanted: deque[tuple[float, int]] = deque()

    def wake_or_rest(self, now: float, replicas: int, seen: dict[str, float]) -> int:
        """From none to one, or to none: KEDA's part."""
        if any(seen.values()):
            self._active_at = now
            return replicas or 1
        return replicas if now - self._active_at <= self._signals.cooldown else 0

    def adjust(self, now: float, replicas: int, seen: dict[str, float]) -> int:
        """Between one and the most: the HorizontalPodAutoscaler's part."""
        signals = self._signals
        if not replicas:
            self._wanted.clear()
            return 0
        wanted = 1
        for name, value in seen.items():
            each = getattr(signals, name)
            is_near = abs(value / (each * replicas) - 1) <= signals.tolerance
            wanted = max(wanted, replicas if is_near else math.ceil(value / each))
        wanted = min(wanted, signals.most)
        self._wanted.append((now, wanted))
        while self._wanted[0][0] < now - signals.stabilization:
            self._wanted.popleft()
        if wanted < replicas:
            return min(replicas, max(count for _, count in self._wanted))
        return min(wanted, max(replicas + 4, 2 * replicas))


class Simulation:
    """One run."""

    def __init__(self, plant: Plant, signals: Signals, load: Load, rng: random.Random) -> None:
        self._plant = plant
        self._signals = signals
        self._load = load
        self._rng = rng
        self._autoscaler = Autoscaler(signals)
        self._pending: list[float] = []
        self._messages: deque[list[float | None]] = deque()
        """Due time, and when sent. No due time: the job was taken back, its message was not."""
        self._queued = 0
        self._executors: list[Executor] = []
        self._replicas = 0
        self._named = 0
        self._due_counted = self._due_scraped = 0
        self._result = Result()

    def run(self) -> Result:
        """From the first moment to the horizon."""
        arriving = deque(self._load.due)
        for step in range(int(self._load.horizon / LOOK)):
            now = step * LOOK
            while arriving and arriving[0] <= now:
                heapq.heappush(self._pending, arriving.popleft())
            for executor in self._executors:
                self._work(executor, now)
            self._take_in(now)
            self._watch(now)
            self._dispatch(now)
            self._end_drained(now)
            self._scale(now)
            self._result.pod_seconds += LOOK * len(self._executors)
        return self._result

    @property
    def _ready(self) -> Iterator[Executor]:
        """Those that are in the register."""
        return (each for each in self._executors if each.capacity and each.ends_at is None)

    def _work(self, executor: Executor, now: float) -> None:
        """Run what it holds until now."""
        running = executor.running
        while running and running[0][0] <= now:
            end, _ = heapq.heappop(running)
            self._result.done += 1
            self._result.last_end = end
            if executor.waiting:
                self._start(executor, end)
        while executor.waiting and len(running) < self._plant.slots:
            self._start(executor, now)

    def _start(self, executor: Executor, at: float) -> None:
        due = executor.waiting.popleft()
        took = self._load.handler * self._rng.uniform(0.5, 1.5)
        self._result.lags.append(at - due)
        executor.pace.note(took)
        heapq.heappush(executor.running, (at + took, due))

    def _take_in(self, now: float) -> None:
        """One message each in turn, as they are spread over partitions."""
        takers = [e for e in self._executors if e.ready_at <= now and e.ends_at is None]
        while self._messages and takers:
            takers = [each for each in takers if each.held < self._places(each)]
            for executor in takers[: len(self._messages)]:
                due, _ = self._messages.popleft()
                if due is not None:
                    self._queued -= 1
                    executor.waiting.append(due)
        for executor in takers:
            self._work(executor, now)

    def _places(self, executor: Executor) -> int:
        return self._plant.slots + executor.pace.prefetch

    def _watch(self, now: float) -> None:
        """What is reported, counted, swept and scraped from time to time."""
        plant = self._plant
        if now % plant.report == 0:
            for executor in self._executors:
                if executor.ready_at <= now:
                    executor.capacity = self._places(executor)
        if now % plant.sweep == 0:
            self._sweep(now)
        if now % plant.count == 0:
            self._due_counted = min(len(self._pending), _MOST_COUNTED)
        if now % plant.scrape == 0:
            self._due_scraped = self._due_counted
            for executor in self._executors:
                if executor.ready_at <= now:
                    executor.busy.append((now, len(executor.running)))

    def _sweep(self, now: float) -> None:
        """The reaper takes messages for lost."""
        for message in self._messages:
            due, sent_at = message
            if due is not None and (sent_at or 0) <= now - self._plant.queued_timeout:
                heapq.heappush(self._pending, due)
                self._queued -= 1
                message[0] = None

    def _dispatch(self, now: float) -> None:
        """As many steps of the scheduler as it takes."""
        while self._pending:
            nodes = [
                Node(each.name, "executor", _LONG_AGO, (TYPE,), each.capacity)
                for each in self._ready
            ]
            flying = [InFlight(TYPE, None, self._queued)] if self._queued else []
            flying += [InFlight(TYPE, e.name, e.held) for e in self._executors if e.held]
            _, credit = credits([TYPE], nodes, flying)
            count = min(credit[TYPE], len(self._pending), _BATCH)
            if not count:
                break
            for _ in range(count):
                self._messages.append([heapq.heappop(self._pending), now])
            self._queued += count
        self._result.peak = max(self._result.peak, len(self._pending))

    def _scale(self, now: float) -> None:
        signals, wanted = self._signals, self._replicas
        if now % signals.polling == 0:
            wanted = self._autoscaler.wake_or_rest(now, wanted, self._seen(now))
        if now % signals.sync == 0:
            wanted = self._autoscaler.adjust(now, wanted, self._seen(now))
        if wanted == self._replicas:
            return
        self._replicas = wanted
        self._result.replicas.append((now, wanted))
        here = [each for each in self._executors if each.ends_at is None]
        for _ in range(wanted - len(here)):
            self._named += 1
            pace = Pace(slots=self._plant.slots, most_prefetch=self._plant.most_prefetch)
            self._executors.append(Executor(f"e{self._named}", now + self._plant.start, pace))
        for executor in here[wanted:]:
            executor.ends_at = now + self._plant.drain_timeout
            self._hand_back(executor.waiting)

    def _seen(self, now: float) -> dict[str, float]:
        """What the triggers that there are say."""
        every = {
            "lag": float(len(self._messages)),
            "due": float(self._due_scraped),
            "busy": sum(self._busy(each, now) for each in self._executors),
        }
        return {
            name: value for name, value in every.items() if getattr(self._signals, name) is not None
        }

    def _busy(self, executor: Executor, now: float) -> float:
        while executor.busy and executor.busy[0][0] <= now - self._signals.average:
            executor.busy.popleft()
        return sum(count for _, count in executor.busy) / max(len(executor.busy), 1)

    def _end_drained(self, now: float) -> None:
        for executor in list(self._executors):
            if executor.ends_at is not None and (not executor.running or executor.ends_at <= now):
                self._result.interrupted += len(executor.running)
                self._hand_back(deque(due for _, due in executor.running))
                self._executors.remove(executor)

    def _hand_back(self, jobs: deque[float]) -> None:
        while jobs:
            heapq.heappush(self._pending, jobs.popleft())
