"""The worker threads: every job that is handed to them is run or comes back, exactly once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest

from executor.allowance import Allowance
from executor.held import Held
from executor.logs import AttemptLogs
from executor.pace import Pace
from executor.workers import Workers
from jobs.lifecycle import Finish, Outcome, Status
from jobs.registry import Context, Handler
from tests.builders import NOW, a_job

DEADLINE = 30
SLOTS = 4


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


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
def started() -> Allowance:
    return Allowance(10_000)


@pytest.fixture
def hire(ends: Ends, started: Allowance) -> Iterator[Callable[..., Workers]]:
    made: list[Workers] = []
    nobody: Any = None
    logs = AttemptLogs(nobody, lines=0, clock=lambda: NOW, give_up=threading.Event())

    def hire(handler: Callable[[Context], Any], slots: int = SLOTS) -> Workers:
        workers = Workers(
            {"noop": Handler("noop", handler, False)},
            slots=slots,
            started=started,
            pace=Pace(slots=slots, most_prefetch=0),
            writer=ends,  # type: ignore[arg-type]
            logs=logs,
            clock=lambda: NOW,
        )
        made.append(workers)
        return workers

    yield hire
    for workers in made:
        workers.close()


def take(started: Allowance, count: int, **fields: Any) -> list[Held]:
    assert started.take(count) == count
    return [Held(a_job(status=Status.RUNNING, **fields)) for _ in range(count)]


def test_withdrawing_races_with_the_workers_and_loses_none(
    hire: Callable[..., Workers],
    ends: Ends,
    started: Allowance,
    request: pytest.FixtureRequest,
) -> None:
    # Threads take turns far more often than usual, also between two lines that seem one.
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-6)
    workers = hire(lambda context: None)
    withdrawn = 0

    for _ in range(1000):
        workers.submit(take(started, 2))
        withdrawn += len(workers.withdraw())
    for _ in range(2000 - withdrawn):
        ends.get()

    assert started.taken == 0


def test_a_handler_that_outlives_its_time_is_replaced(
    hire: Callable[..., Workers], ends: Ends, started: Allowance
) -> None:
    let_go = threading.Event()
    running = threading.Event()

    def handler(context: Context) -> str:
        if context.payload:
            running.set()
            let_go.wait(DEADLINE)
        return "done"

    workers = hire(handler, slots=1)
    [stuck] = take(started, 1, payload='{"a": 1}', timeout_seconds=1.5)
    workers.submit([stuck])
    assert running.wait(DEADLINE)
    since = stuck.working_since
    assert since is not None

    workers.expire([stuck], since + 1)
    assert not stuck.is_settled
    workers.expire([stuck], since + 2)
    workers.expire([stuck], since + 3)
    workers.submit(take(started, 1))

    held, finish = ends.get()
    assert held is stuck
    assert finish.attempt.outcome is Outcome.TIMED_OUT
    assert finish.last_error == "the handler ran longer than timeoutSeconds, 1.5"
    assert stuck.cancelled.is_set()
    assert ends.get()[1].status is Status.COMPLETED
    let_go.set()
    assert len(ends) == 0


def test_a_job_that_was_lost_in_the_queue_is_not_run(
    hire: Callable[..., Workers], ends: Ends, started: Allowance
) -> None:
    ran: list[str] = []
    let_go = threading.Event()

    def handler(context: Context) -> None:
        let_go.wait(DEADLINE)
        ran.append(context.job_id)

    workers = hire(handler, slots=1)
    first, lost, last = take(started, 3)
    workers.submit([first, lost, last])
    assert lost.settle()
    workers.abandon(lost)
    let_go.set()

    assert [ends.get()[0], ends.get()[0]] == [first, last]
    assert ran == [str(first.job.id), str(last.job.id)]
    assert started.taken == 0
