"""Several executors share the work, also where one of them is busy for long."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest

from executor.executor import Executor
from jobs.lifecycle import Job, Status
from jobs.registry import Context
from jobs.repository import Repository
from tests.waiting import wait_for

StartExecutor = Callable[..., Executor]
Insert = Callable[..., list[Job]]
WaitUntilAll = Callable[..., list[Job]]


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_an_executor_that_comes_later_relieves_one_that_is_full(
    start_executor: StartExecutor,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    let_go: threading.Event,
) -> None:
    """A full executor takes no messages, and must hand partitions over all the same."""
    ran: SimpleQueue[str] = SimpleQueue()

    def block(context: Context) -> None:
        let_go.wait(60)

    start_executor(block, concurrency=1, prefetch=0)
    full = wait_until_all(queue(1), Status.RUNNING)
    waiting = queue(20)

    start_executor(lambda context: ran.put(context.job_id), concurrency=1)

    # All but one, which the full executor has in its hands.
    for _ in range(19):
        ran.get(timeout=30)
    let_go.set()
    wait_until_all([*full, *waiting], Status.COMPLETED)


def test_an_executor_whose_handlers_become_slow_gives_back_what_it_holds_too_much(
    start_executor: StartExecutor,
    repo: Repository,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    count_by_status: Callable[[list[Job]], Counter[str]],
    let_go: threading.Event,
) -> None:
    """What waits in its line is out of reach of its peers and of jobs of higher priority."""
    slow_for = iter([1.0, *(60.0 for _ in range(100))])

    def handler(context: Context) -> None:
        if context.payload:
            let_go.wait(next(slow_for))

    start_executor(handler, concurrency=1)
    wait_until_all(queue(300), Status.COMPLETED)

    jobs = queue(100, payload='{"slow":true}')

    wait_for(lambda: count_by_status(jobs)[Status.PENDING] > 80)
    assert {repo.jobs.get(job.id).attempts for job in jobs} == {0}
