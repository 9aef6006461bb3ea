"""`kill -9` in the middle of the work: every job is done, and none by two at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pymongo.collection import Collection

from jobs.lifecycle import Job, Outcome, Status
from jobs.repository import Repository
from tests.processes import RoleProcess
from tests.records import overlaps, read_runs
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(180)

Start = Callable[..., RoleProcess]
Insert = Callable[..., list[Job]]
Documents = Collection[dict[str, Any]]
CountByStatus = Callable[[list[Job]], Counter[str]]

PATIENCE = timedelta(seconds=90)
TTL = timedelta(seconds=2)
FAILOVER = TTL + timedelta(seconds=2)
CONCURRENCY = 8


def test_a_leader_and_an_executor_killed_amid_2000_jobs(
    start: Start,
    repo: Repository,
    insert: Insert,
    documents: Documents,
    count_by_status: CountByStatus,
    record_file: Path,
) -> None:
    schedulers = [start("runscheduler"), start("runscheduler")]
    executors = [
        start("runexecutor", "--name", name, "--concurrency", str(CONCURRENCY))
        for name in ("victim", "survivor")
    ]
    reaper = start("runreaper")
    for role in (*schedulers, *executors, reaper):
        role.wait_ready()
    # Longer than CLAIM_TIMEOUT, so that a lease that was not extended would show.
    jobs = insert(10, sleepMs=5000, priority=9) + insert(1990, sleepMs=20)
    leader, standby = leader_and_standby(schedulers)
    wait_for(lambda: count_by_status(jobs)[Status.COMPLETED] >= 500, deadline=PATIENCE)
    wait_for(lambda: documents.count_documents({"status": "running", "claimedBy": "victim"}))

    leader.kill()
    executors[0].kill()
    killed_at = datetime.now(UTC)
    wait_for(lambda: is_leading(standby), deadline=FAILOVER)
    wait_for(
        lambda: count_by_status(jobs) == {Status.COMPLETED: len(jobs)},
        deadline=PATIENCE,
        show=lambda: count_by_status(jobs),
    )

    assert all(role.is_alive for role in (standby, executors[1], reaper))
    runs = read_runs(record_file)
    assert runs.keys() == {str(job.id) for job in jobs}
    lost = ended = 0
    for job in (repo.jobs.get(job.id) for job in jobs):
        ran = runs[str(job.id)]
        assert not overlaps(ran, {executors[0].pid: killed_at})
        outcomes = [attempt.outcome for attempt in job.history]
        assert outcomes == [Outcome.LOST] * job.attempts + [Outcome.COMPLETED]
        # An attempt that was lost had at least been started in the store.
        assert len(ran) <= len(outcomes)
        for earlier, later in pairwise(job.history):
            assert earlier.executor != later.executor
            assert later.started_at > earlier.finished_at
        for attempt in job.history:
            if attempt.outcome is Outcome.LOST:
                lost += 1
                ended += ran[0].pid == executors[0].pid and ran[0].ended_at is not None
                # Its last lease ended after the crash: until then nobody else could have the job.
                assert attempt.finished_at > killed_at
                assert ran[-1].started_at > attempt.finished_at
    assert lost
    # Only what was running, or had ended and was about to be written; not what was merely held.
    assert lost - ended <= 2 * CONCURRENCY


def test_a_stalled_leader_that_comes_back_repeats_nothing(
    start: Start,
    repo: Repository,
    insert: Insert,
    documents: Documents,
    count_by_status: CountByStatus,
    record_file: Path,
) -> None:
    """SIGSTOP for longer than its lease, while another leads, and jobs and templates come due."""
    schedulers = [start("runscheduler"), start("runscheduler")]
    executor, reaper = start("runexecutor"), start("runreaper")
    for role in (*schedulers, executor, reaper):
        role.wait_ready()
    leader, standby = leader_and_standby(schedulers)
    now = repo.clock.now()
    spread = [now + n * timedelta(milliseconds=50) for n in range(200)]
    jobs = [insert(1, scheduled_at=at)[0] for at in spread]
    templates = [insert(1, scheduled_at=at, cron="* * * * *")[0] for at in spread]

    wait_for(lambda: count_by_status(jobs)[Status.COMPLETED] >= 20)
    leader.stall()
    wait_for(lambda: is_leading(standby), deadline=FAILOVER)
    wait_for(lambda: count_by_status(jobs)[Status.COMPLETED] >= 120)
    leader.resume()
    wait_for(lambda: leader.get("/readyz") == (200, "standby"), deadline=TTL)
    wait_for(lambda: count_by_status(jobs) == {Status.COMPLETED: 200})
    first_runs = {"templateId": {"$exists": True}, "occurrenceAt": {"$lte": spread[-1]}}
    wait_for(lambda: documents.count_documents({**first_runs, "status": "completed"}) >= 200)

    occurrences = Counter(
        (run["templateId"], run["occurrenceAt"])
        for run in documents.find({"templateId": {"$exists": True}})
    )
    assert set(occurrences.values()) == {1}
    assert occurrences.keys() >= {(t.id, t.scheduled_at) for t in templates}
    runs = read_runs(record_file)
    assert {len(each) for each in runs.values()} == {1}
    assert documents.count_documents({"attempts": {"$gt": 0}}) == 0
    assert is_leading(standby)


def test_a_job_that_kills_its_executor_is_a_dead_letter_and_its_neighbours_are_not(
    start: Start,
    repo: Repository,
    insert: Insert,
    documents: Documents,
    count_by_status: CountByStatus,
    record_file: Path,
) -> None:
    start("runscheduler", QUEUED_TIMEOUT="2s")
    start("runreaper", CLAIM_TIMEOUT="1s")
    retry = {"strategy": "fixed", "base": 0.001}
    [deadly] = insert(1, sleepMs=500, exit=True, priority=9, max_attempts=2, retry=retry)
    # Of fast handlers, more would be started than run: see `executor.pace`.
    neighbours = insert(5, sleepMs=200)
    held: list[int] = []

    for _ in range(2):
        executor = start("runexecutor", "--concurrency", "1", CLAIM_TIMEOUT="1s")
        wait_for(lambda: repo.jobs.get(deadly.id).status is Status.RUNNING)
        held.append(documents.count_documents({"status": "claimed"}))
        assert executor.wait() == 66
        wait_for(lambda: repo.jobs.get(deadly.id).status in (Status.PENDING, Status.DLQ))
    start("runexecutor")
    wait_for(lambda: count_by_status(neighbours) == {Status.COMPLETED: 5})

    dead = repo.jobs.get(deadly.id)
    assert dead.status is Status.DLQ
    assert dead.attempts == 2
    assert "gave no sign of life" in (dead.last_error or "")
    assert len(read_runs(record_file)[str(deadly.id)]) == 2
    # Some of them were held by the executors that died, and waited.
    assert sum(held) > 0
    for job in neighbours:
        assert repo.jobs.get(job.id).attempts == 0
        assert [run.how for run in read_runs(record_file)[str(job.id)]] == ["end"]


def is_leading(scheduler: RoleProcess) -> bool:
    return scheduler.get("/readyz")[1].startswith("leader")


def leader_and_standby(schedulers: Sequence[RoleProcess]) -> tuple[RoleProcess, RoleProcess]:
    [leader] = wait_for(lambda: [each for each in schedulers if is_leading(each)])
    [standby] = [each for each in schedulers if each is not leader]
    return leader, standby
