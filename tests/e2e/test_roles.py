"""The role commands as an operator meets them: probes, metrics, SIGTERM, mistakes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from devstack.process import free_port
from devstack.redis import Redis
from jobs.lifecycle import Job, Outcome, Status
from jobs.repository import Repository
from tests.processes import RoleProcess
from tests.records import read_runs
from tests.waiting import wait_for

Start = Callable[..., RoleProcess]
Insert = Callable[..., list[Job]]
CountByStatus = Callable[[list[Job]], Counter[str]]

SCHEDULER_METRICS = (
    "scheduler_tick_seconds_bucket",
    'scheduler_jobs_claimed_total{job_type="test-record"} 3.0',
    "scheduler_dispatch_errors_total 0.0",
    "scheduler_cron_spawned_total 1.0",
    "scheduler_cron_invalid_total 0.0",
    "scheduler_is_leader 1.0",
    'scheduler_dispatch_lag_seconds_count{job_type="test-record"} 3.0',
)
EXECUTOR_METRICS = (
    'executor_jobs_total{job_type="test-record",result="completed"} 3.0',
    'executor_handler_seconds_count{job_type="test-record"} 3.0',
    'executor_start_lag_seconds_count{job_type="test-record"} 3.0',
)
REAPER_METRICS = ("reaper_recovered_jobs_total", 'jobs_by_status{status="pending"} 0.0')
# Long enough for a loaded machine, and yet well below what would show a time-out at work.
SLACK = timedelta(seconds=15)
LONG_TTL = {"LEADER_TTL": "60s"}
"""Whoever waits for the end of such a lease waits for longer than SLACK."""
NEVER_AGAIN = "0 0 29 2 *"


def test_every_role_answers_probes_and_ends_in_good_order(
    start: Start, repo: Repository, insert: Insert, count_by_status: CountByStatus
) -> None:
    schedulers = [start("runscheduler", **LONG_TTL) for _ in range(2)]
    executor, reaper = start("runexecutor"), start("runreaper")
    roles = (*schedulers, executor, reaper)
    for role in roles:
        role.wait_ready()
    jobs = insert(2)
    [template] = insert(1, cron=NEVER_AGAIN)
    wait_for(lambda: count_by_status(jobs) == {Status.COMPLETED: 2})

    def shows(role: RoleProcess, names: tuple[str, ...]) -> bool:
        status, text = role.get("/metrics")
        return status == 200 and all(name in text for name in names)

    assert [role.get("/healthz") for role in roles] == [(200, "ok")] * 4
    assert [role.get("/nothing-here")[0] for role in roles] == [404] * 4
    assert executor.get("/readyz") == reaper.get("/readyz") == (200, "ready")
    [leader] = wait_for(lambda: [s for s in schedulers if s.get("/readyz")[1].startswith("lead")])
    [standby] = [each for each in schedulers if each is not leader]
    assert leader.get("/readyz")[1].startswith("leader, term ")
    assert standby.get("/readyz") == (200, "standby")
    wait_for(lambda: shows(leader, SCHEDULER_METRICS), show=lambda: leader.get("/metrics")[1])
    wait_for(lambda: shows(executor, EXECUTOR_METRICS), show=lambda: executor.get("/metrics")[1])
    wait_for(lambda: shows(reaper, REAPER_METRICS), show=lambda: reaper.get("/metrics")[1])
    assert shows(standby, ("scheduler_is_leader 0.0",))

    with ThreadPoolExecutor() as pool:
        ending = pool.submit(leader.terminate, SLACK)
        # At once, not when the lease has ended.
        wait_for(lambda: standby.get("/readyz")[1].startswith("leader"), deadline=SLACK)
        assert ending.result() == 0
        rest = (standby, executor, reaper)
        assert list(pool.map(lambda role: role.terminate(SLACK), rest)) == [0, 0, 0]
    for role in roles:
        assert "Traceback" not in role.output
        assert "has stopped" in role.output
    assert repo.nodes.live(role="executor", seen_since=template.created_at) == []


def test_schedulers_elect_their_leader_through_redis(
    start: Start, private_redis: Callable[[], Redis]
) -> None:
    # Without the etcd that the other tests use.
    by_redis = {
        "LEADER_BACKEND": "redis",
        "REDIS_URL": private_redis().location,
        "ETCD_ENDPOINTS": f"127.0.0.1:{free_port()}",
    }
    leader = start("runscheduler", **by_redis)
    wait_for(lambda: leader.get("/readyz")[1].startswith("leader, term "))
    standby = start("runscheduler", **by_redis)
    standby.wait_ready()
    assert standby.get("/readyz") == (200, "standby")

    assert leader.terminate(SLACK) == 0

    wait_for(lambda: standby.get("/readyz")[1].startswith("leader, term "))
    assert standby.terminate(SLACK) == 0
    assert "Traceback" not in leader.output + standby.output


def test_sigterm_lets_running_handlers_end_and_hands_back_the_rest(
    start: Start,
    repo: Repository,
    insert: Insert,
    count_by_status: CountByStatus,
    record_file: Path,
) -> None:
    scheduler = start("runscheduler")
    executor = start("runexecutor", "--concurrency", "2")
    jobs = insert(20, sleepMs=2500)
    wait_for(lambda: count_by_status(jobs)[Status.RUNNING] == 2)
    wait_for(lambda: count_by_status(jobs)[Status.CLAIMED] > 0)

    assert executor.terminate() == 0

    scheduler.terminate()
    runs = read_runs(record_file)
    after = [repo.jobs.get(job.id) for job in jobs]
    assert {job.status for job in after} <= {Status.COMPLETED, Status.PENDING, Status.QUEUED}
    assert {job.attempts for job in after} == {0}
    done = {str(job.id) for job in after if job.status is Status.COMPLETED}
    assert len(done) >= 2
    assert runs.keys() == done
    assert {run.how for each in runs.values() for run in each} == {"end"}


def test_handlers_that_outlive_the_drain_do_not_hold_up_the_exit(
    start: Start,
    repo: Repository,
    insert: Insert,
    count_by_status: CountByStatus,
    tmp_path: Path,
) -> None:
    pid_file = tmp_path / "pid"
    start("runscheduler")
    executor = start("runexecutor", "--concurrency", "2", DRAIN_TIMEOUT="1s")
    jobs = insert(1, sleepMs=60_000, stubborn=True) + insert(
        1, job_type="test-block-in-process", file=str(pid_file)
    )
    wait_for(pid_file.exists)
    wait_for(lambda: count_by_status(jobs) == {Status.RUNNING: 2})
    child = Path("/proc") / wait_for(pid_file.read_text)
    assert child.exists()

    begun = time.monotonic()
    assert executor.terminate() == 0
    took = time.monotonic() - begun

    assert 1 <= took < 1 + SLACK.total_seconds()
    wait_for(lambda: not child.exists(), deadline=SLACK)
    for job in (repo.jobs.get(job.id) for job in jobs):
        assert job.status in (Status.PENDING, Status.QUEUED)
        assert job.attempts == 0
        assert [attempt.outcome for attempt in job.history] == [Outcome.HANDED_BACK]


def test_mistakes_are_answered_with_one_sentence(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Side by side, as each takes a second or more."""
    reaper = start("runreaper")
    reaper.wait_ready()
    migrate, known = "Run: python manage.py migrate", "Known: "
    mistakes = {
        start("runscheduler", MONGO_DB="not_migrated"): migrate,
        start("runexecutor", MONGO_DB="not_migrated"): migrate,
        start("runreaper", MONGO_DB="not_migrated"): migrate,
        start("runreaper", CLAIM_TIMEOUT="soon"): "CLAIM_TIMEOUT='soon': must be a duration",
        start("runreaper", MONGO_URI="mongodb://"): "MONGO_URI cannot be used",
        start("runreaper", METRICS_HOST="192.0.2.1"): "Set METRICS_HOST to an address of this",
        start("runexecutor", "--type", "no-such-type"): known,
        start("runexecutor", JOB_TYPE="noop,no-such-type"): known,
        start("runexecutor", "--type", ","): "no job type is named",
        start("runexecutor", "--concurrency", "0"): "--concurrency: '0' is no positive number",
        start("runexecutor", "--concurrency", "1001"): "--concurrency: '1001' is more than 1000",
    }
    monkeypatch.setattr("devstack.process.free_port", lambda: reaper.metrics_port)
    taken = f"cannot listen on 127.0.0.1:{reaper.metrics_port} (Address already in use)"
    mistakes[start("runreaper")] = f"{taken}. Set METRICS_PORT to a free port."

    for role, sentence in mistakes.items():
        assert role.wait() != 0
        assert sentence in role.output
        assert "Traceback" not in role.output
    assert reaper.is_alive
