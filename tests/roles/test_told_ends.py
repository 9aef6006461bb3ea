"""What the log tells of a job at the default level: each failure, and no success."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from executor.executor import Executor
from jobs.broker.publisher import Publisher
from jobs.lifecycle import Job, Status
from jobs.registry import Context, Fail
from jobs.repository import Repository
from jobs.repository.nodes import Node
from reaper.reaper import Reaper
from scheduler.dispatcher import Dispatcher
from tests.waiting import wait_for

Insert = Callable[..., list[Job]]
Told = list[dict[str, Any]]

ID = "a-clients-request"
LEASE = timedelta(seconds=60)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[..., Told]:
    """What was told of the ends of attempts, from INFO on, and of jobs that were queued."""
    caplog.set_level(logging.INFO, "jobs.attempts")
    caplog.set_level(logging.DEBUG, "scheduler.dispatcher")
    wanted = {"attempt.ended", "attempt.failed", "job.dead_lettered", "jobs.queued"}

    def told() -> Told:
        lines = [vars(record) for record in list(caplog.records)]
        return [line for line in lines if line.get("event") in wanted]

    return told


def events_of(lines: Iterable[dict[str, Any]]) -> list[tuple[str, str, str, int]]:
    return sorted(
        (line["job_id"], line["event"], line["levelname"], line["attempt"]) for line in lines
    )


def test_each_attempt_that_fails_is_told_with_its_request_and_no_success_is(
    start_executor: Callable[..., Executor], queue: Insert, told: Callable[[], Told]
) -> None:
    patience = threading.Event()

    def handler(context: Context) -> None:
        if context.payload.get("slow"):
            patience.wait()
        if context.payload.get("bad"):
            raise Fail("no such invoice")
        if context.payload.get("unlucky"):
            raise ValueError("try again")

    start_executor(handler)
    fields = {"request_id": ID, "retry": {"baseDelaySeconds": 3600}}
    [fine] = queue(1, **fields)
    [bad] = queue(1, payload='{"bad":true}', attempts=1, **fields)
    [unlucky] = queue(1, payload='{"unlucky":true}', **fields)
    [slow] = queue(
        1, payload='{"slow":true}', timeout_seconds=0.2, max_attempts=1, tenant_id="t", **fields
    )

    wait_for(lambda: len(told()) == 3, show=told)
    patience.set()

    lines = told()
    assert events_of(lines) == sorted(
        [
            (str(bad.id), "job.dead_lettered", "WARNING", 2),
            (str(unlucky.id), "attempt.failed", "INFO", 1),
            (str(slow.id), "job.dead_lettered", "WARNING", 1),
        ]
    )
    assert {line["request_id"] for line in lines} == {ID}
    assert str(fine.id) not in {line["job_id"] for line in lines}
    by_id = {line["job_id"]: line for line in lines}
    assert by_id[str(bad.id)]["error"] == "no such invoice"
    assert by_id[str(unlucky.id)]["error"] == "ValueError: try again"
    assert (by_id[str(slow.id)]["outcome"], by_id[str(slow.id)]["tenant_id"]) == ("timed_out", "t")


def test_the_reaper_tells_of_each_attempt_that_it_finds_lost(
    repo: Repository, insert: Insert, make_reaper: Callable[..., Reaper], told: Callable[[], Told]
) -> None:
    jobs = [*insert(1, request_id=ID), *insert(1, request_id=ID, max_attempts=1)]
    ids, now = [job.id for job in jobs], repo.clock.now()
    assert repo.dispatch.queue(ids, claim_id="dispatch", now=now)
    assert repo.claims.claim(ids, owner="gone", claim_id="claim", lease=LEASE, now=now, start=True)

    make_reaper().run_once(now + LEASE + timedelta(seconds=1))

    assert [repo.jobs.get(each).status for each in ids] == [Status.PENDING, Status.DLQ]
    lines = told()
    assert events_of(lines) == sorted(
        [
            (str(ids[0]), "attempt.failed", "INFO", 1),
            (str(ids[1]), "job.dead_lettered", "WARNING", 1),
        ]
    )
    assert {(line["outcome"], line["request_id"]) for line in lines} == {("lost", ID)}


def test_a_scheduler_tells_which_requests_it_dispatches_jobs_of(
    repo: Repository,
    publisher: Publisher,
    insert: Insert,
    job_type: str,
    told: Callable[[], Told],
) -> None:
    now = repo.clock.now()
    repo.nodes.report(Node("one", "executor", now, (job_type,), 100), now=now)
    jobs = [*insert(2, request_id=ID), *insert(1, request_id="another"), *insert(1)]

    Dispatcher(repo, publisher, job_types=[job_type], batch=10).step(repo.clock.now())

    [line] = told()
    assert set(line["job_ids"]) == {str(job.id) for job in jobs}
    assert line["request_ids"] == [ID, "another"]
