"""The event loop of deliveries: every job has one end, and every permit comes back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from queue import SimpleQueue
from typing import Any

import pytest

from executor.allowance import Allowance
from executor.calls import AttemptError
from executor.delivery.clock import SteadyClock
from executor.delivery.couriers import Couriers
from executor.delivery.sender import Delivered
from executor.held import Held
from executor.logs import AttemptLogs
from executor.pace import Pace
from executor.pool import Means
from jobs.lifecycle import Finish, Job, Outcome, Response, Status
from tests.builders import NOW, a_job
from tests.waiting import wait_for

DEADLINE = 30


class Ends:
    """Stands where the writer is."""

    def __init__(self) -> None:
        self._ends: SimpleQueue[tuple[Held, Finish]] = SimpleQueue()

    def put(self, held: Held, finish: Finish) -> None:
        self._ends.put((held, finish))

    def get(self) -> tuple[Held, Finish]:
        return self._ends.get(timeout=DEADLINE)

    def __len__(self) -> int:
        return self._ends.qsize()


class Sending:
    """A sender that does what the test says."""

    def __init__(self, deliver: Callable[[Job], Awaitable[Delivered]]) -> None:
        self._deliver = deliver
        self.is_closed = False

    async def deliver(self, job: Job) -> Delivered:
        return await self._deliver(job)

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
def started() -> Allowance:
    return Allowance(10_000)


@pytest.fixture
def hire(ends: Ends, started: Allowance) -> Iterator[Callable[[Sending], Couriers]]:
    made: list[Couriers] = []
    nobody: Any = None
    logs = AttemptLogs(nobody, lines=0, clock=lambda: NOW, give_up=threading.Event())
    pace = Pace(slots=16, most_prefetch=0)

    def hire(sender: Sending) -> Couriers:
        means = Means(started, pace, ends, logs, lambda: NOW)  # type: ignore[arg-type]
        made.append(Couriers(means, SteadyClock(means.clock), {"http": sender}))
        return made[-1]

    yield hire
    for couriers in made:
        couriers.close()


def take(started: Allowance, count: int, **fields: Any) -> list[Held]:
    assert started.take(count) == count
    return [
        Held(a_job(**{"job_type": "http", "status": Status.RUNNING} | fields)) for _ in range(count)
    ]


def all_given_back(started: Allowance) -> None:
    wait_for(lambda: started.taken == 0)


async def forever(job: Job) -> Delivered:
    await asyncio.sleep(DEADLINE * 10)
    return Delivered()


def test_what_was_submitted_is_under_way_at_once_and_ends_as_it_ended(
    hire: Callable[[Sending], Couriers], ends: Ends, started: Allowance
) -> None:
    met = 0
    everybody = asyncio.Event()

    async def deliver(job: Job) -> Delivered:
        nonlocal met
        met += 1
        if met == 300:
            everybody.set()
        await everybody.wait()
        return Delivered('{"offset":7}', Response(201, "made"))

    hire(Sending(deliver)).submit(take(started, 300))

    finishes = [ends.get()[1] for _ in range(300)]
    assert {finish.status for finish in finishes} == {Status.COMPLETED}
    assert {finish.result for finish in finishes} == {'{"offset":7}'}
    assert {finish.attempt.response for finish in finishes} == {Response(201, "made")}
    all_given_back(started)


def test_a_failure_says_what_its_sender_says(
    hire: Callable[[Sending], Couriers], ends: Ends, started: Allowance
) -> None:
    async def deliver(job: Job) -> Delivered:
        raise AttemptError(
            "busy",
            error_class="HttpStatus",
            after=timedelta(seconds=7),
            response=Response(503, "later"),
        )

    hire(Sending(deliver)).submit(take(started, 1))

    _, finish = ends.get()
    assert finish.status is Status.PENDING
    assert finish.scheduled_at == finish.attempt.finished_at + timedelta(seconds=7)
    assert finish.attempt.error_class == "HttpStatus"
    assert finish.attempt.response == Response(503, "later")
    all_given_back(started)


def test_a_sender_that_breaks_fails_its_job_only(
    hire: Callable[[Sending], Couriers], ends: Ends, started: Allowance
) -> None:
    async def deliver(job: Job) -> Delivered:
        if job.payload is None:
            raise LookupError("a bug")
        return Delivered()

    couriers = hire(Sending(deliver))
    couriers.submit([*take(started, 1), *take(started, 1, payload="{}")])

    by_status = {finish.status: finish for _, finish in (ends.get(), ends.get())}
    assert by_status[Status.PENDING].last_error == "LookupError: a bug"
    assert Status.COMPLETED in by_status
    all_given_back(started)


def test_an_abandoned_delivery_is_cancelled_at_whatever_moment(
    hire: Callable[[Sending], Couriers], ends: Ends, started: Allowance
) -> None:
    """Before it has begun, just then, and while it runs."""
    couriers = hire(Sending(forever))

    for pause in (0, 0, 0.001, 0.02) * 25:
        [held] = take(started, 1)
        couriers.submit([held])
        time.sleep(pause)
        assert held.settle()
        couriers.abandon(held)

    all_given_back(started)
    assert len(ends) == 0


def test_a_delivery_that_outlives_the_jobs_time_is_cancelled(
    hire: Callable[[Sending], Couriers], ends: Ends, started: Allowance
) -> None:
    couriers = hire(Sending(forever))
    [slow] = take(started, 1, timeout_seconds=1.5)
    couriers.submit([slow])
    since = wait_for(lambda: slow.working_since)
    assert since is not None

    couriers.expire([slow], since + 1)
    assert not slow.is_settled
    couriers.expire([slow], since + 2)
    couriers.expire([slow], since + 3)

    held, finish = ends.get()
    assert held is slow
    assert finish.attempt.outcome is Outcome.TIMED_OUT
    assert finish.last_error == "the delivery took longer than timeoutSeconds, 1.5"
    all_given_back(started)
    assert len(ends) == 0


def test_closing_breaks_off_what_is_under_way_and_closes_the_senders(
    hire: Callable[[Sending], Couriers], ends: Ends, started: Allowance
) -> None:
    sender = Sending(forever)
    couriers = hire(sender)
    helds = take(started, 5)
    couriers.submit(helds)
    wait_for(lambda: all(held.working_since for held in helds))

    couriers.close()

    assert sender.is_closed
    assert started.taken == 0
    assert len(ends) == 0


def test_the_event_loop_does_not_wait_for_the_stores_clock() -> None:
    """It has one of its own, which goes on while MongoDB is away."""
    away = threading.Event()

    def store_clock() -> datetime:
        assert not away.is_set()
        return NOW

    clock = SteadyClock(store_clock)
    before = clock()
    away.set()
    time.sleep(0.01)

    assert NOW <= before < clock() < NOW + timedelta(seconds=DEADLINE)
