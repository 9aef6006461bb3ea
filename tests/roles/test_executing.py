"""An executor runs jobs to their end, whatever their handlers do."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from chronos_site.config import BrokerConfig
from executor.executor import Executor
from jobs import registry
from jobs.broker.topics import ensure_topics, topics_for
from jobs.lifecycle import Job, Outcome, Status
from jobs.registry import Context, Fail, Retry, Snooze
from jobs.repository import Repository
from tests.project import handlers as project
from tests.waiting import assert_takes_at_most, wait_for

StartExecutor = Callable[..., Executor]
Insert = Callable[..., list[Job]]
WaitUntilAll = Callable[..., list[Job]]


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """What blocked handlers wait for; set at the latest when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def test_jobs_run_once_each_and_their_results_are_kept(
    start_executor: StartExecutor, queue: Insert, wait_until_all: WaitUntilAll
) -> None:
    ran: SimpleQueue[str] = SimpleQueue()

    def handler(context: Context) -> dict[str, Any]:
        ran.put(context.job_id)
        return {"payload": context.payload, "attempt": context.attempt}

    start_executor(handler, concurrency=4)
    jobs = queue(200, payload='{"a":1}')

    done = wait_until_all(jobs, Status.COMPLETED)

    assert sorted(ran.get() for _ in range(ran.qsize())) == sorted(str(job.id) for job in jobs)
    for job in done:
        assert job.result == '{"payload": {"a": 1}, "attempt": 1}'
        assert job.attempts == 0
        assert job.claim_id is None
        assert job.lease_until is None
        [attempt] = job.history
        assert attempt.outcome is Outcome.COMPLETED
        assert attempt.executor == "executor-0"
        assert job.started_at == attempt.started_at <= attempt.finished_at == job.finished_at


def test_no_more_handlers_run_at_once_than_there_are_slots(
    start_executor: StartExecutor, queue: Insert, wait_until_all: WaitUntilAll
) -> None:
    lock = threading.Lock()
    running = most = 0
    all_slots_taken = threading.Barrier(3)

    def handler(context: Context) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with suppress(threading.BrokenBarrierError):
            all_slots_taken.wait(30)
        with lock:
            running -= 1

    start_executor(handler, concurrency=3)

    wait_until_all(queue(30), Status.COMPLETED)

    assert most == 3


def fails(error: BaseException) -> Callable[[Context], Any]:
    def handler(context: Context) -> Any:
        raise error

    return handler


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (fails(ValueError("no such \ud800 invoice")), "ValueError: no such ? invoice"),
        (project.sys_exit, "SystemExit: payload.ok is missing"),
        (project.unserialisable, "the handler's result cannot be stored as JSON"),
        (lambda context: "x" * 2_000_000, "store it elsewhere"),
        (fails(Fail("no such invoice")), "no such invoice"),
        (fails(Retry("busy")), "busy"),
    ],
    ids=["raises", "sys.exit", "unserialisable", "too large", "Fail", "Retry"],
)
def test_a_handler_that_fails_says_why_and_the_executor_lives_on(
    start_executor: StartExecutor,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    handler: Callable[[Context], Any],
    reason: str,
) -> None:
    start_executor(lambda context: handler(context) if context.payload else "fine", concurrency=1)
    bad = queue(3, payload='{"bad":true}', max_attempts=1)
    good = queue(3)

    failed = wait_until_all(bad, Status.DLQ)

    for job in failed:
        assert reason in (job.last_error or "")
        assert job.attempts == 1
        assert job.history[0].outcome is Outcome.FAILED
    assert [job.result for job in wait_until_all(good, Status.COMPLETED)] == ['"fine"'] * 3


@pytest.mark.parametrize("payload", ['"text"', "{", "[" * 100_000])
def test_a_payload_that_is_no_object_is_a_dead_letter(
    start_executor: StartExecutor, queue: Insert, wait_until_all: WaitUntilAll, payload: str
) -> None:
    start_executor(lambda context: None)

    [job] = wait_until_all(queue(1, payload=payload), Status.DLQ)

    assert "the stored payload is not" in (job.last_error or "")


def test_a_failed_job_is_pending_again_after_the_policys_delay(
    start_executor: StartExecutor, queue: Insert, wait_until_all: WaitUntilAll
) -> None:
    start_executor(fails(ValueError("no")))
    policy = {"strategy": "linear", "base": 100}
    jobs = queue(1, attempts=2, max_attempts=9, retry=policy)

    [job] = wait_until_all(jobs, Status.PENDING)

    assert job.attempts == 3
    assert job.scheduled_at == job.history[0].finished_at + timedelta(seconds=300)
    assert job.claim_id is None
    assert job.queued_at is None


def test_retry_and_snooze_say_when(
    start_executor: StartExecutor, repo: Repository, queue: Insert, wait_until_all: WaitUntilAll
) -> None:
    until = repo.clock.now() + timedelta(days=1)

    def handler(context: Context) -> None:
        if context.payload:
            raise Snooze(until)
        raise Retry("busy", after=timedelta(hours=1))

    start_executor(handler)
    retried, snoozed = queue(1), queue(1, payload='{"snooze":true}')

    [job] = wait_until_all(retried, Status.PENDING)
    assert job.scheduled_at == job.history[0].finished_at + timedelta(hours=1)
    assert job.attempts == 1
    [job] = wait_until_all(snoozed, Status.PENDING)
    assert job.scheduled_at == until
    assert job.attempts == 0
    assert job.history[0].outcome is Outcome.SNOOZED


def test_a_handler_that_outlives_its_timeout_loses_its_slot_to_the_next(
    start_executor: StartExecutor,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    let_go: threading.Event,
) -> None:
    cancelled = threading.Event()

    def handler(context: Context) -> str:
        if context.payload:
            assert context.deadline is not None
            context.cancelled.wait(30)
            cancelled.set()
            let_go.wait(30)
        return "late"

    start_executor(handler, concurrency=1)
    stuck = queue(2, payload='{"stuck":true}', timeout_seconds=0.2, max_attempts=1)
    others = queue(2)

    for job in wait_until_all(stuck, Status.DLQ):
        assert job.last_error == "the handler ran longer than timeoutSeconds, 0.2"
        assert job.history[0].outcome is Outcome.TIMED_OUT
    wait_until_all(others, Status.COMPLETED)
    assert cancelled.wait(30)

    let_go.set()
    for job in wait_until_all(stuck, Status.DLQ):
        assert job.result is None
        assert len(job.history) == 1


def test_cancelling_reaches_a_running_handler_and_its_end_is_not_written(
    start_executor: StartExecutor,
    repo: Repository,
    queue: Insert,
    wait_until_all: WaitUntilAll,
) -> None:
    running, ended = threading.Event(), threading.Event()
    noticed: list[bool] = []

    def handler(context: Context) -> str:
        if context.payload:
            running.set()
            noticed.append(context.cancelled.wait(60))
            ended.set()
        return "late"

    start_executor(handler, concurrency=1)
    [job] = queue(1, payload='{"stuck":true}')
    assert running.wait(30)

    assert repo.interventions.cancel(job.id, now=repo.clock.now())

    # Long before its lease is extended, which is done every 100 s.
    assert ended.wait(30)
    assert noticed == [True]
    # The slot is free again, and by now the late end would have been written.
    wait_until_all(queue(2), Status.COMPLETED)
    job = repo.jobs.get(job.id)
    assert job.status is Status.CANCELLED
    assert job.result is None
    assert job.history == ()


def test_a_running_handler_hears_of_its_cancellation_in_about_a_second(
    start_executor: StartExecutor, repo: Repository, queue: Insert
) -> None:
    running: SimpleQueue[str] = SimpleQueue()
    heard: SimpleQueue[float] = SimpleQueue()

    def handler(context: Context) -> None:
        # Only handlers that have run for a second are looked after.
        assert not context.cancelled.wait(2)
        running.put(context.job_id)
        assert context.cancelled.wait(60)
        heard.put(time.monotonic())

    start_executor(handler, concurrency=1)

    def take() -> timedelta:
        [job] = queue(1)
        assert running.get(timeout=60) == str(job.id)
        began = time.monotonic()
        assert repo.interventions.cancel(job.id, now=repo.clock.now())
        return timedelta(seconds=heard.get(timeout=60) - began)

    assert_takes_at_most(timedelta(seconds=2), take)


def test_a_job_cancelled_before_its_start_is_not_run(
    start_executor: StartExecutor,
    repo: Repository,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    let_go: threading.Event,
) -> None:
    ran: list[str] = []

    def handler(context: Context) -> None:
        ran.append(context.job_id)
        let_go.wait(60)

    start_executor(handler, concurrency=1, prefetch=10)
    [first] = queue(1)
    wait_until_all([first], Status.RUNNING)
    [claimed, other] = wait_until_all(queue(2), Status.CLAIMED)

    assert repo.interventions.cancel(claimed.id, now=repo.clock.now())
    let_go.set()

    wait_until_all([first, other], Status.COMPLETED)
    assert sorted(ran) == sorted([str(first.id), str(other.id)])
    assert repo.jobs.get(claimed.id).status is Status.CANCELLED


def test_in_process_handlers_run_in_a_child_that_may_die_or_be_killed(
    start_executor: StartExecutor,
    broker_config: BrokerConfig,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """One test for all of it, as starting a child takes a second."""
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.project.settings")
    functions = {each.name: each.function for each in registry.handlers().values()}
    functions = {name: function for name, function in functions.items() if "in-process" in name}
    ensure_topics(broker_config, topics_for(functions))
    start_executor(functions, in_process=True, concurrency=1)
    pid_file = tmp_path / "pid"

    def run(job_type: str, status: Status, **fields: Any) -> Job:
        jobs = queue(1, job_type=f"test-{job_type}-in-process", max_attempts=1, **fields)
        return wait_until_all(jobs, status)[0]

    # Starting the child takes longer, and does not count.
    child = run("pid", Status.COMPLETED, timeout_seconds=0.8).result
    assert child != str(os.getpid())
    assert run("raise", Status.DLQ).last_error == "LookupError: no such invoice"
    assert run("pid", Status.DLQ, payload="[]").last_error == (
        "the stored payload is not a JSON object"
    )
    assert run("pid", Status.COMPLETED).result == child

    assert run("exit", Status.DLQ).last_error == "the handler's process ended with exit code 66"
    assert run("pid", Status.COMPLETED).result != child

    payload = json.dumps({"file": str(pid_file)})
    [job] = queue(1, job_type="test-block-in-process", payload=payload, timeout_seconds=3)
    [job] = wait_until_all([job], Status.PENDING)
    assert job.history[0].outcome is Outcome.TIMED_OUT
    wait_for(lambda: not Path(f"/proc/{pid_file.read_text()}").exists())
    run("pid", Status.COMPLETED)
