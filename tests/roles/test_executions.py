"""An attempt of each outcome leaves its record, which says what the job's history says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from executor.executor import Executor
from jobs.executions import Execution
from jobs.lifecycle import Job, Outcome, Status
from jobs.registry import Context, Fail, Retry, Snooze
from jobs.repository import Repository
from jobs.repository.executions import Wanted
from reaper.reaper import Reaper
from tests.waiting import wait_for

StartExecutor = Callable[..., Executor]
Insert = Callable[..., list[Job]]
WaitUntilAll = Callable[..., list[Job]]


def executions_of(repo: Repository, job: Job) -> list[Execution]:
    page, _ = repo.executions.page(Wanted(job_id=job.id), limit=100)
    return page


def assert_recorded(repo: Repository, job: Job) -> None:
    """Each attempt in the history, newest last, is also an execution of this job."""
    recorded = [execution.attempt for execution in reversed(executions_of(repo, job))]
    assert recorded == list(repo.jobs.get(job.id).history)


def raises(error: Exception) -> Callable[[Context], Any]:
    def handler(context: Context) -> None:
        raise error

    return handler


@pytest.mark.parametrize(
    ("handler", "status", "outcome"),
    [
        (lambda context: "done", Status.COMPLETED, Outcome.COMPLETED),
        (raises(Retry("busy", after=timedelta(hours=1))), Status.PENDING, Outcome.FAILED),
        (raises(Fail("no such invoice")), Status.DLQ, Outcome.FAILED),
        (lambda context: context.cancelled.wait(60), Status.DLQ, Outcome.TIMED_OUT),
    ],
    ids=["completed", "failed", "dead letter", "timed out"],
)
def test_an_attempt_that_ends_is_recorded_with_its_end(
    repo: Repository,
    start_executor: StartExecutor,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    handler: Callable[[Context], Any],
    status: Status,
    outcome: Outcome,
) -> None:
    start_executor(handler, concurrency=2)
    is_slow = outcome is Outcome.TIMED_OUT
    limits = {"timeout_seconds": 0.2, "max_attempts": 1} if is_slow else {}

    jobs = wait_until_all(queue(3, definition="invoice", **limits), status)

    for job in jobs:
        assert_recorded(repo, job)
        [execution] = executions_of(repo, job)
        assert execution.attempt.outcome is outcome
        assert (execution.tenant_id, execution.definition) == (job.tenant_id, "invoice")


def test_snoozed_and_interrupted_attempts_are_recorded_too(
    repo: Repository, start_executor: StartExecutor, queue: Insert, wait_until_all: WaitUntilAll
) -> None:
    running, let_go = threading.Event(), threading.Event()
    until = repo.clock.now() + timedelta(days=1)

    def handler(context: Context) -> None:
        if context.payload:
            raise Snooze(until)
        running.set()
        let_go.wait(60)

    executor = start_executor(handler, concurrency=1)
    [snoozed] = wait_until_all(queue(1, payload='{"snooze":true}'), Status.PENDING)
    [interrupted, waiting] = queue(2)
    assert running.wait(30)
    executor.close()
    let_go.set()

    for job in (snoozed, interrupted, waiting):
        assert_recorded(repo, job)
    outcomes = [
        [execution.attempt.outcome for execution in executions_of(repo, job)]
        for job in (snoozed, interrupted, waiting)
    ]
    # One that only waited for a slot has made no attempt.
    assert sorted(outcomes) == [[], [Outcome.HANDED_BACK], [Outcome.SNOOZED]]


def test_a_cancelled_attempt_and_its_late_end_are_one_record(
    repo: Repository, start_executor: StartExecutor, queue: Insert, wait_until_all: WaitUntilAll
) -> None:
    running, ended = threading.Event(), threading.Event()

    def handler(context: Context) -> str:
        if context.payload:
            running.set()
            context.cancelled.wait(60)
            ended.set()
        return "late"

    start_executor(handler, concurrency=1)
    [job] = queue(1, payload='{"slow":true}')
    assert running.wait(30)

    repo.interventions.cancel(job.id, now=repo.clock.now())

    assert ended.wait(30)
    # By now the late end would have been written.
    wait_until_all(queue(2), Status.COMPLETED)
    [execution] = executions_of(repo, job)
    assert execution.attempt.outcome is Outcome.CANCELLED
    assert execution.attempt.executor == "executor-0"


def test_the_attempt_of_a_silent_executor_is_recorded_by_the_reaper(
    repo: Repository, queue: Insert, make_reaper: Callable[..., Reaper]
) -> None:
    [job] = queue(1)
    now = repo.clock.now()
    lease = timedelta(seconds=1)
    repo.claims.claim([job.id], owner="gone", claim_id="c1", lease=lease, now=now, start=True)

    make_reaper(claim_timeout=timedelta(milliseconds=3)).run_once(now + 2 * lease)

    assert_recorded(repo, job)
    [execution] = executions_of(repo, job)
    assert execution.attempt.outcome is Outcome.LOST
    assert "gone gave no sign of life" in (execution.attempt.error or "")


def test_an_executor_that_lost_its_jobs_to_the_reaper_does_not_contradict_it(
    repo: Repository,
    start_executor: StartExecutor,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    make_reaper: Callable[..., Reaper],
) -> None:
    let_go = threading.Event()
    executor = start_executor(lambda context: let_go.wait(60), concurrency=4)
    jobs = wait_until_all(queue(4, max_attempts=1), Status.RUNNING)

    # A reaper whose clock is far ahead of the leases, which only a test has.
    later = repo.clock.now() + timedelta(hours=1)
    make_reaper(claim_timeout=timedelta(milliseconds=3)).run_once(later)
    let_go.set()
    executor.close()

    for job in wait_until_all(jobs, Status.DLQ):
        assert_recorded(repo, job)
        assert [attempt.outcome for attempt in job.history] == [Outcome.LOST]


def test_the_record_is_there_when_the_end_is(
    repo: Repository, start_executor: StartExecutor, queue: Insert
) -> None:
    start_executor(lambda context: None, concurrency=8)
    jobs = queue(100)

    for job in jobs:
        wait_for(lambda job=job: repo.jobs.get(job.id).status is Status.COMPLETED)
        assert_recorded(repo, job)
