"""An executor that is stopped loses nothing: what runs may end, what waits goes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from executor.executor import Executor
from executor.held import Held
from executor.writer import Writer
from jobs.lifecycle import Finish, Job, Outcome, Status
from jobs.registry import Context
from jobs.repository import Repository
from tests.waiting import wait_for

StartExecutor = Callable[..., Executor]
Insert = Callable[..., list[Job]]
WaitUntilAll = Callable[..., list[Job]]

# A process that the machine does not let run for so long loses its jobs, as it must.
LEASE = timedelta(seconds=3)


def closing(executor: Executor) -> threading.Thread:
    thread = threading.Thread(target=executor.close)
    thread.start()
    return thread


def test_running_handlers_end_and_waiting_jobs_go_back_without_an_attempt(
    start_executor: StartExecutor,
    repo: Repository,
    queue: Insert,
    wait_until_all: WaitUntilAll,
) -> None:
    let_go = threading.Event()

    def handler(context: Context) -> bool:
        let_go.wait(30)
        return context.cancelled.is_set()

    executor = start_executor(handler, concurrency=2, drain_timeout=timedelta(seconds=30))
    running = wait_until_all(queue(2), Status.RUNNING)
    waiting = wait_until_all(queue(2), Status.CLAIMED)

    thread = closing(executor)
    went_back = wait_until_all(waiting, Status.PENDING)
    assert thread.is_alive()
    let_go.set()
    thread.join(30)

    assert not thread.is_alive()
    for job in went_back:
        assert job.attempts == 0
        assert job.claim_id is None
        assert job.lease_until is None
        assert job.history == ()
    assert [job.result for job in wait_until_all(running, Status.COMPLETED)] == ["false"] * 2
    assert repo.nodes.live(role="executor", seen_since=repo.clock.now()) == []


def test_a_handler_that_outlives_the_drain_is_told_and_handed_back(
    start_executor: StartExecutor, queue: Insert, wait_until_all: WaitUntilAll
) -> None:
    noticed = threading.Event()
    let_go = threading.Event()

    def handler(context: Context) -> str:
        context.cancelled.wait(30)
        noticed.set()
        let_go.wait(30)
        return "late"

    executor = start_executor(handler, concurrency=1, drain_timeout=timedelta(seconds=0.5))
    jobs = wait_until_all(queue(1), Status.RUNNING)

    begun = time.monotonic()
    executor.close()
    took = time.monotonic() - begun

    [job] = wait_until_all(jobs, Status.PENDING)
    let_go.set()
    assert noticed.wait(30)
    assert 0.5 < took < 25
    assert job.attempts == 0
    assert job.result is None
    assert [attempt.outcome for attempt in job.history] == [Outcome.HANDED_BACK]


def test_leases_are_extended_while_draining(
    start_executor: StartExecutor,
    repo: Repository,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    start_reaper: Callable[..., object],
) -> None:
    let_go = threading.Event()
    executor = start_executor(
        lambda context: let_go.wait(30),
        concurrency=1,
        claim_timeout=LEASE,
        drain_timeout=timedelta(seconds=30),
    )
    start_reaper(claim_timeout=LEASE)
    [job] = wait_until_all(queue(1), Status.RUNNING)

    thread = closing(executor)
    lease = job.lease_until
    assert lease is not None
    wait_for(lambda: repo.clock.now() > lease + LEASE / 3)
    let_go.set()
    thread.join(10)

    [job] = wait_until_all([job], Status.COMPLETED)
    assert job.attempts == 0


def test_an_executor_that_drains_reports_that_it_takes_nothing(
    start_executor: StartExecutor, repo: Repository, queue: Insert, wait_until_all: WaitUntilAll
) -> None:
    let_go = threading.Event()
    executor = start_executor(
        lambda context: let_go.wait(30), concurrency=1, drain_timeout=timedelta(seconds=30)
    )
    wait_until_all(queue(1), Status.RUNNING)

    def capacity() -> int:
        since = repo.clock.now() - timedelta(seconds=10)
        [node] = repo.nodes.live(role="executor", seen_since=since)
        return node.capacity

    assert capacity() > 0
    thread = closing(executor)
    wait_for(lambda: capacity() == 0)
    let_go.set()
    thread.join(10)


@pytest.mark.parametrize("run", range(3))
def test_stopping_at_any_moment_strands_no_job_and_loses_no_end(
    start_executor: StartExecutor,
    repo: Repository,
    queue: Insert,
    run: int,
) -> None:
    ended: dict[str, int] = {}
    enough = threading.Event()

    def handler(context: Context) -> None:
        time.sleep(0.002)
        ended[context.job_id] = ended.get(context.job_id, 0) + 1
        if len(ended) >= 50 * (run + 1):
            enough.set()

    executor = start_executor(handler, concurrency=8, drain_timeout=timedelta(seconds=20))
    jobs = queue(1000)
    assert enough.wait(30)

    executor.close()

    after = [repo.jobs.get(job.id) for job in jobs]
    done = {str(job.id) for job in after if job.status is Status.COMPLETED}
    rest = [job for job in after if str(job.id) not in done]
    assert done == ended.keys()
    assert set(ended.values()) == {1}
    assert {job.status for job in rest} <= {Status.PENDING, Status.QUEUED}
    assert {job.attempts for job in after} == {0}


def test_an_end_decided_as_the_drain_ran_out_is_still_written(
    start_executor: StartExecutor,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker is interrupted between deciding the end and handing it to the writer."""
    put = Writer.put
    ended, drained = threading.Event(), threading.Event()

    def put_late(writer: Writer, held: Held, finish: Finish) -> None:
        ended.set()
        drained.wait(30)
        put(writer, held, finish)

    monkeypatch.setattr(Writer, "put", put_late)
    executor = start_executor(lambda context: "done", drain_timeout=timedelta(milliseconds=10))
    jobs = queue(1)
    assert ended.wait(30)

    threading.Timer(0.5, drained.set).start()
    executor.close()

    [job] = wait_until_all(jobs, Status.COMPLETED, deadline=timedelta(seconds=1))
    assert job.result == '"done"'
