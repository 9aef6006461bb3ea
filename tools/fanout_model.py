"""A model of fan-out in which no time passes: events in their order, with costs that were measured.

What it leaves out is listed in docs/scaling.md.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from jobs.lifecycle import SHARDS
from jobs.messages import shards_of

MS: Final = 1e-3
US: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds; of one core where a processor is used. Where from: docs/scaling.md."""

    worker_step: float = 0.6 * MS
    """In the worker, for each step."""
    worker_job: float = 20 * US
    """In the worker, for each job: reading, moving, publishing, and waiting for Kafka."""
    store_step: float = 0.6 * MS
    """In each mongod that a step asks."""
    store_key: float = 2 * US
    """In mongod, for each key of the index that is looked at, also those of others' shards."""
    store_move: float = 37 * US
    """In mongod, for each job that is moved to queued."""
    store_count: float = 2.3 * US
    """In mongod, for each job in flight, at each step: the step counts them all."""
    store_rest: float = 80.5 * US
    """In mongod, for the rest of a job's life once it is queued: claimed, recorded, finished."""
    store_insert: float = 15.5 * US
    """In mongod, for storing a job."""


@dataclass(frozen=True, slots=True)
class Plant:
    """What there is of everything."""

    workers: int = 1
    mongods: int = 1
    """MongoDB shards."""
    cores: int = 4
    """Of each mongod."""
    partitions: int = 8
    """Of `bucket-triggers`."""
    batch: int = 1000
    """CLAIM_BATCH."""
    executors: int | None = 8
    """None: jobs are dispatched to nobody, stay in flight, and there is no limit."""
    executor_rate: float = 3000.0
    """Jobs per second that one works off."""
    executor_places: int = 1516
    """What one may hold: 16 slots, and half a second's jobs."""
    session_timeout: float = 6.0
    """KAFKA_SESSION_TIMEOUT."""
    rebalance: float = 1.0
    """From then until others own the shards of a dead worker."""
    full_pause: float = 0.02
    """Until a worker that found the executors full looks again."""
    costs: Costs = field(default_factory=Costs)


@dataclass(frozen=True, slots=True)
class Load:
    """Jobs in the order of their due times, and the shard of each."""

    due: Sequence[float]
    shards: bytes
    is_stored_meanwhile: bool = True
    """As in a steady state; else all have been stored before."""


def steady(rate: float, seconds: float, rng: random.Random) -> Load:
    """Due at random moments (Poisson, given their number)."""
    number = round(rate * seconds)
    return Load(sorted(seconds * rng.random() for _ in range(number)), rng.randbytes(number))


def burst(number: int, rng: random.Random) -> Load:
    """All due at the full minute."""
    return Load([0.0] * number, rng.randbytes(number), is_stored_meanwhile=False)


class Mongods:
    """What is done on their cores, each piece on the one that is free first."""

    def __init__(self, number: int, cores: int) -> None:
        self._free_at = [[0.0] * cores for _ in range(number)]

    def serve(self, now: float, work: Sequence[float], pieces: int = 1) -> float:
        """Do work on each mongod at the same time. Returns when the last piece is done."""
        done = now
        for cores, seconds in zip(self._free_at, work, strict=True):
            for _ in range(pieces):
                free_at = max(now, cores[0]) + seconds / pieces
                heapq.heapreplace(cores, free_at)
                done = max(done, free_at)
        return done


@dataclass(slots=True)
class Worker:
    """One of the group: what it owns, and what of that is pending."""

    partitions: list[int]
    jobs: list[int] = field(default_factory=list)
    """In the order of their due times; those before `begin` are gone."""
    begin: int = 0
    portions: list[float] = field(default_factory=list)
    """Its share of the shards that each mongod has."""
    is_alive: bool = True
    is_busy: bool = False
    naps: int = 0
    """Counted, so that only the newest one's end is heeded."""


@dataclass(slots=True)
class Result:
    """What came of it."""

    load: Load
    sent: list[tuple[float, list[int]]] = field(default_factory=list)
    """When, and which jobs, in the order in which they were published."""
    most_in_flight: int = 0
    orphaned: frozenset[int] = frozenset()
    """Shards of the worker that was killed."""
    unpublished: list[int] = field(default_factory=list)
    """Jobs that it had queued and not published."""

    def lags(self, jobs: Container[int] | None = None) -> list[float]:
        """Seconds from due to published, of these jobs (None: of all), the shortest first."""
        due = self.load.due
        return sorted(
            at - due[job] for at, batch in self.sent for job in batch if jobs is None or job in jobs
        )

    @property
    def seconds(self) -> float:
        """Until the last was published."""
        return self.sent[-1][0]


class Simulation:
    """One run."""

    def __init__(self, plant: Plant, load: Load) -> None:
        self._plant = plant
        self._costs = plant.costs
        self._load = load
        self._mongods = Mongods(plant.mongods, plant.cores)
        self._executors_free_at = 0.0
        self._in_flight = 0
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = count()
        self._result = Result(load)
        self._shards = [shards_of(each, plant.partitions) for each in range(plant.partitions)]
        of_shard = [n for n, shards in enumerate(self._shards) for _ in shards]
        self._partitions = [of_shard[shard] for shard in load.shards]
        self._pending: list[list[int]] = [[] for _ in self._shards]
        self._put_back(range(len(load.due)))
        self._workers = [
            # As Kafka assigns ranges.
            Worker(
                [p for p in range(plant.partitions) if p * plant.workers // plant.partitions == n]
            )
            for n in range(plant.workers)
        ]

    def run(self, kill_at: float | None = None) -> Result:
        """Until no job is left.

        Args:
            kill_at: when the last of several workers is killed, in seconds; None: never.
        """
        for worker in self._workers:
            self._own(worker, 0.0)
        if kill_at is not None:
            self._at(kill_at, self._kill)
        while self._events:
            now, _, happen = heapq.heappop(self._events)
            happen(now)
        return self._result

    def _at(self, at: float, happen: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (at, next(self._numbers), happen))

    def _own(self, worker: Worker, now: float) -> None:
        """Take what is pending in the worker's partitions, and look at it."""
        worker.jobs, worker.begin = worker.jobs[worker.begin :], 0
        worker.portions = [0.0] * self._plant.mongods
        for partition in worker.partitions:
            worker.jobs += self._pending[partition]
            self._pending[partition] = []
            for shard in self._shards[partition]:
                mongod = shard * self._plant.mongods // SHARDS
                worker.portions[mongod] += self._plant.mongods / SHARDS
        # They are numbered in the order of their due times.
        worker.jobs.sort()
        if not worker.is_busy:
            self._nap(worker, now)

    def _nap(self, worker: Worker, until: float) -> None:
        """Look when a job comes due, not before `until`."""
        worker.is_busy = False
        worker.naps += 1
        nap = worker.naps

        def wake(now: float) -> None:
            if worker.is_alive and worker.naps == nap:
                self._step(worker, now)

        if worker.begin < len(worker.jobs):
            self._at(max(until, self._load.due[worker.jobs[worker.begin]]), wake)

    def _step(self, worker: Worker, now: float) -> None:
        """Count what is in flight, find what is due, move it; then publish it."""
        plant, costs = self._plant, self._costs
        worker.is_busy = True
        owned = sum(worker.portions)
        credit = plant.batch
        if plant.executors is not None:
            free = max(0, plant.executors * plant.executor_places - self._in_flight)
            credit = min(credit, math.ceil(free * owned / plant.mongods))
        due = self._load.due.__getitem__
        end = bisect_right(worker.jobs, now, lo=worker.begin, key=due)
        is_full = end - worker.begin > credit < plant.batch
        end = min(end, worker.begin + credit)
        batch, worker.begin = worker.jobs[worker.begin : end], end
        work = []
        for portion in worker.portions:
            seconds = costs.store_step + costs.store_count * self._in_flight / plant.mongods
            if portion:
                # The keys of others stand between its own.
                key = costs.store_key / portion
                seconds += (key + costs.store_move) * len(batch) * portion / owned
            work.append(seconds)
        moved_at = self._mongods.serve(now, work)
        self._in_flight += len(batch)
        self._result.most_in_flight = max(self._result.most_in_flight, self._in_flight)
        published_at = moved_at + costs.worker_step + costs.worker_job * len(batch)
        pause = plant.full_pause if is_full else 0.0
        self._at(published_at, lambda at: self._publish(worker, batch, at, pause))

    def _publish(self, worker: Worker, batch: list[int], now: float, pause: float) -> None:
        if not worker.is_alive:
            # Nobody was told of them: whoever takes over will.
            self._result.unpublished = batch
            return
        if batch:
            self._result.sent.append((now, batch))
            if self._plant.executors is not None:
                speed = self._plant.executors * self._plant.executor_rate
                self._executors_free_at = max(now, self._executors_free_at) + len(batch) / speed
                self._at(self._executors_free_at, lambda at: self._finish(len(batch), at))
        self._nap(worker, now + pause)

    def _finish(self, jobs: int, now: float) -> None:
        """What executors write of jobs, and what clients store in the meantime."""
        each = self._costs.store_rest + self._costs.store_insert * self._load.is_stored_meanwhile
        mongods, cores = self._plant.mongods, self._plant.cores
        written_at = self._mongods.serve(now, [jobs * each / mongods] * mongods, pieces=cores)
        self._at(written_at, lambda _: self._leave(jobs))

    def _leave(self, jobs: int) -> None:
        self._in_flight -= jobs

    def _kill(self, now: float) -> None:
        victim = self._workers.pop()
        victim.is_alive = False
        orphaned = [shard for each in victim.partitions for shard in self._shards[each]]
        self._result.orphaned = frozenset(orphaned)
        silence = self._plant.session_timeout + self._plant.rebalance
        self._at(now + silence, lambda at: self._take_over(victim, at))

    def _take_over(self, victim: Worker, now: float) -> None:
        """Give the partitions of a dead worker to the others in turn."""
        self._leave(len(self._result.unpublished))
        self._put_back(self._result.unpublished)
        self._put_back(victim.jobs[victim.begin :])
        for place, partition in enumerate(victim.partitions):
            self._workers[place % len(self._workers)].partitions.append(partition)
        for heir in self._workers:
            self._own(heir, now)

    def _put_back(self, jobs: Iterable[int]) -> None:
        for job in jobs:
            self._pending[self._partitions[job]].append(job)
