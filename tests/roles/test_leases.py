"""A lease is a sign of life, not a limit for handlers; a claim that was lost writes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from executor.executor import Executor
from jobs.errors import StoreUnavailable
from jobs.lifecycle import Job, Outcome, Status
from jobs.registry import Context
from jobs.repository import Repository
from reaper.reaper import Reaper
from tests.waiting import wait_for

StartExecutor = Callable[..., Executor]
Insert = Callable[..., list[Job]]
WaitUntilAll = Callable[..., list[Job]]

# A process that the machine does not let run for so long loses its jobs, as it must.
LEASE = timedelta(seconds=2)


def test_a_handler_longer_than_the_claim_timeout_runs_once(
    start_executor: StartExecutor,
    start_reaper: Callable[..., object],
    repo: Repository,
    queue: Insert,
    wait_until_all: WaitUntilAll,
) -> None:
    ran: list[int] = []
    over = threading.Event()

    def handler(context: Context) -> None:
        ran.append(context.attempt)
        over.wait(60)

    start_executor(handler, concurrency=2, claim_timeout=LEASE)
    start_reaper(claim_timeout=LEASE)
    # The third is claimed and waits for a slot: its lease must be extended too.
    jobs = queue(3)
    first = repo.clock.now()
    wait_for(lambda: len(ran) == 2)
    wait_for(lambda: repo.clock.now() > first + 2.5 * LEASE)
    over.set()

    for job in wait_until_all(jobs, Status.COMPLETED):
        assert job.attempts == 0
        assert len(job.history) == 1
    assert ran == [1, 1, 1]


def test_a_claim_that_an_outage_delayed_is_no_older_than_its_write(
    start_executor: StartExecutor,
    repo: Repository,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the reaper would take jobs from an executor whose handlers have just begun."""
    claim, over = repo.claims.claim, threading.Event()
    tried: list[datetime] = []

    def claim_after_the_outage(*arguments: Any, **options: Any) -> list[Job]:
        tried.append(options["now"])
        if options["now"] < tried[0] + 2 * LEASE:
            raise StoreUnavailable("MongoDB is away")
        return claim(*arguments, **options)

    monkeypatch.setattr(repo.claims, "claim", claim_after_the_outage)
    start_executor(lambda context: over.wait(30), claim_timeout=LEASE)

    [job] = wait_until_all(queue(1), Status.RUNNING)
    over.set()

    assert job.lease_until is not None
    assert job.lease_until >= tried[0] + 3 * LEASE


def test_an_executor_that_lost_its_claim_stops_the_handler_and_writes_nothing(
    start_executor: StartExecutor,
    make_reaper: Callable[..., Reaper],
    repo: Repository,
    queue: Insert,
    wait_until_all: WaitUntilAll,
) -> None:
    """As after a SIGSTOP: the reaper has taken the job back, and somebody else holds it now."""
    running, told, let_go = threading.Event(), threading.Event(), threading.Event()

    def handler(context: Context) -> str:
        running.set()
        if context.cancelled.wait(60):
            told.set()
        let_go.wait(60)
        return "of the old claim"

    start_executor(handler, concurrency=1, claim_timeout=LEASE)
    [job] = queue(1)
    assert running.wait(30)
    later = repo.clock.now() + timedelta(hours=1)

    # The reaper of a world in which this executor has been silent for an hour.
    make_reaper(claim_timeout=LEASE).run_once(later)
    assert repo.dispatch.queue([job.id], claim_id="dispatch", now=later) == {job.id}
    [claimed] = repo.claims.claim(
        [job.id], owner="other", claim_id="new", lease=timedelta(hours=1), now=later, start=True
    )
    assert claimed.claimed_by == "other"

    assert told.wait(30)
    let_go.set()
    wait_until_all(queue(1, payload="[]"), Status.DLQ)
    [job] = wait_until_all([job], Status.RUNNING)
    assert job.claimed_by == "other"
    assert job.result is None
    assert [attempt.outcome for attempt in job.history] == [Outcome.LOST]
