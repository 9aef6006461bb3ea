"""`kill -9` in the middle of the work: every job is done, and none by two at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from pymongo.collection import Collection

from jobs.lifecycle import Job, Outcome, Status
from jobs.repository import Repository
from tests.processes import RoleProcess
from tests.records import overlaps, read_runs
from tests.waiting import wait_for

Start = Callable[..., RoleProcess]
Insert = Callable[..., list[Job]]
Documents = Collection[dict[str, Any]]
CountByStatus = Callable[[list[Job]], Counter[str]]

PATIENCE = timedelta(seconds=180)
# By the lease of 4 s. Two more are promised, which tests/roles measures; here the machine is busy.
FAILOVER = timedelta(seconds=20)
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
    jobs = insert(10, sleepMs=8000, priority=9) + insert(1990, sleepMs=20)
    leader, standby = leader_and_standby(schedulers)
    wait_for(lambda: count_by_status(jobs)[Status.COMPLETED] >= 500, deadline=PATIENCE)
    victim, survivor = executors

    def is_stopped_at_work() -> bool:
        victim.stall()
        at_work = documents.count_documents({"status": "running", "claimedBy": "victim"}) > 0
        if not at_work:
            victim.resume()
        return at_work

    wait_for(is_stopped_at_work)
    killed_at = datetime.now(UTC)
    victim.kill()
    leader.kill()
    wait_for(lambda: is_leading(standby), deadline=FAILOVER)
    wait_for(
        lambda: count_by_status(jobs) == {Status.COMPLETED: len(jobs)},
        deadline=PATIENCE,
        show=lambda: count_by_status(jobs),
    )

    assert all(role.is_alive for role in (standby, survivor, reaper))
    runs = read_runs(record_file)
    assert runs.keys() == {str(job.id) for job in jobs}
    lost = ended = 0
    for job in (repo.jobs.get(job.id) for job in jobs):
        ran = runs[str(job.id)]
        assert not overlaps(ran, {victim.pid: killed_at})
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
                ended += ran[0].pid == victim.pid and ran[0].ended_at is not None
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
    wait_for(lambda: leader.get("/readyz") == (200, "standby"))
    wait_for(lambda: count_by_status(jobs) == {Status.COMPLETED: 200})

    def occurrences(**which: str) -> Counter[Any]:
        runs = documents.find({"templateId": {"$exists": True}, **which})
        return Counter((run["templateId"], run["occurrenceAt"]) for run in runs)

    first = {(template.id, template.scheduled_at) for template in templates}
    # Where a minute begins meanwhile, some fire twice.
    wait_for(lambda: occurrences(status="completed").keys() >= first)

    assert set(occurrences().values()) == {1}
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
    tmp_path: Path,
) -> None:
    start("runscheduler", QUEUED_TIMEOUT="2s")
    start("runreaper")
    file = tmp_path / "until"
    retry = {"strategy": "fixed", "base": 0.001}
    [deadly] = insert(1, until=str(file), exit=True, priority=9, max_attempts=2, retry=retry)

    def die(executor: RoleProcess, *, attempt: int) -> None:
        # What has ended before is written: else it would be lost with it.
        wait_for(lambda: documents.count_documents({"status": "running"}) == 1)
        file.touch()
        assert executor.wait() == 66
        file.unlink()
        wait_for(lambda: repo.jobs.get(deadly.id).attempts == attempt)

    alone = {"CLAIM_TIMEOUT": "4s"}
    first = start("runexecutor", "--concurrency", "1", **alone)
    wait_for(lambda: repo.jobs.get(deadly.id).status is Status.RUNNING)
    # Of fast handlers, more would be started than run: see `executor.pace`.
    neighbours = insert(5, sleepMs=200)
    # Some are held by an executor that dies, and wait.
    wait_for(lambda: documents.count_documents({"status": "claimed"}))
    die(first, attempt=1)
    second = start("runexecutor", "--concurrency", "1", **alone)
    wait_for(lambda: repo.jobs.get(deadly.id).status is Status.RUNNING)
    die(second, attempt=2)
    start("runexecutor")
    wait_for(lambda: count_by_status(neighbours) == {Status.COMPLETED: 5})

    dead = repo.jobs.get(deadly.id)
    assert dead.status is Status.DLQ
    assert dead.attempts == 2
    assert "gave no sign of life" in (dead.last_error or "")
    assert len(read_runs(record_file)[str(deadly.id)]) == 2
    for job in neighbours:
        assert repo.jobs.get(job.id).attempts == 0
        assert [run.how for run in read_runs(record_file)[str(job.id)]] == ["end"]


def is_leading(scheduler: RoleProcess) -> bool:
    return scheduler.get("/readyz")[1].startswith("leader")


def leader_and_standby(schedulers: Sequence[RoleProcess]) -> tuple[RoleProcess, RoleProcess]:
    [leader] = wait_for(lambda: [each for each in schedulers if is_leading(each)])
    [standby] = [each for each in schedulers if each is not leader]
    return leader, standby
