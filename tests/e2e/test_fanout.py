"""Fan-out workers as processes: `kill -9` amid a large bucket, and an orderly end."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from pymongo.collection import Collection

from jobs.lifecycle import SHARDS, Status
from jobs.repository import Repository
from tests.builders import a_job
from tests.processes import RoleProcess
from tests.waiting import wait_for

Start = Callable[..., RoleProcess]
Documents = Collection[dict[str, Any]]

JOBS: Final = 50_000
BATCH: Final = 10_000
MILLISECOND: Final = timedelta(milliseconds=1)
SESSION: Final = timedelta(seconds=2)
"""KAFKA_SESSION_TIMEOUT of these roles."""
REBALANCE: Final = timedelta(seconds=10)
"""What the group and the heir may take after that: 0.3 s, and much longer on a busy machine."""
PATIENCE: Final = timedelta(seconds=180)


def shards_of(worker: RoleProcess) -> frozenset[int]:
    """What a worker owns, as it says itself: `85 of 256 shards: 0-84`."""
    ranges = re.findall(r"(\d+)-(\d+)", worker.get("/readyz")[1])
    return frozenset(n for first, last in ranges for n in range(int(first), int(last) + 1))


def total(roles: list[RoleProcess], metric: str) -> float:
    """A metric, added up over roles and labels."""
    lines = [line for role in roles for line in role.get("/metrics")[1].splitlines()]
    return sum(float(line.split()[-1]) for line in lines if line.startswith(metric))


def test_a_worker_killed_amid_a_bucket_of_50000_is_replaced_and_no_job_is_missed(
    start: Start, repo: Repository, documents: Documents
) -> None:
    # Nobody is to lose a lease.
    kept = {"CLAIM_TIMEOUT": "60s"}
    # Of jobs due at the very same instant, those of the first shards would go first.
    instants = [repo.clock.now() + n // 25 * MILLISECOND for n in range(JOBS)]
    for some in range(0, JOBS, BATCH):
        jobs = [a_job(scheduled_at=at) for at in instants[some : some + BATCH]]
        assert all(repo.jobs.insert(jobs))
    workers = [start("runfanout", DISPATCH="fanout") for _ in range(3)]
    reaper = start("runreaper", **kept)
    for role in (*workers, reaper):
        role.wait_ready()
    wait_for(lambda: all(shards_of(each) for each in workers))
    wait_for(lambda: sum(len(shards_of(each)) for each in workers) == SHARDS)
    # Once each worker has its share: the first to come would else have all the triggers. Whether
    # that is this minute's bucket or the next one's, its leader finds it.
    scheduler = start("runscheduler", DISPATCH="fanout")
    scheduler.wait_ready()
    # Last: until then, no more than the floor is dispatched.
    executors = [
        start("runexecutor", "--type", "noop", "--concurrency", "64", "--name", name, **kept)
        for name in ("one", "two")
    ]

    wait_for(lambda: documents.count_documents({"status": "completed"}) >= 5_000, deadline=PATIENCE)
    victim, *others = workers
    orphaned = shards_of(victim)
    victim.kill()
    killed_at = repo.clock.now()
    assert documents.count_documents({"status": "pending", "shard": {"$in": list(orphaned)}})
    wait_for(
        lambda: documents.count_documents({"status": "completed"}) == JOBS,
        deadline=PATIENCE,
        show=lambda: repo.census.by_status(limit=JOBS),
    )

    [taken_over] = (
        documents.find({"shard": {"$in": list(orphaned)}, "queuedAt": {"$gt": killed_at}})
        .sort("queuedAt")
        .limit(1)
    )
    assert taken_over["queuedAt"] - killed_at <= SESSION + REBALANCE
    wait_for(lambda: frozenset().union(*map(shards_of, others)) == frozenset(range(SHARDS)))
    once = {"status": Status.COMPLETED, "attempts": 0, "history": {"$size": 1}}
    assert documents.count_documents(once) == JOBS
    # Counted when it is written.
    wait_for(lambda: total(executors, "executor_jobs_total{") >= JOBS)
    assert total(executors, "executor_jobs_total{") == JOBS
    assert all(role.is_alive for role in (*executors, *others, reaper, scheduler))
    buckets = documents.database["schedule_buckets"]
    # What Kafka did not confirm is sent again with the next minute.
    wait_for(
        lambda: not buckets.count_documents({"triggeredAt": {"$exists": False}}), deadline=PATIENCE
    )
    assert sum(bucket["due"] for bucket in buckets.find()) > 0
    assert total(others, "scheduler_fanout_triggers_received_total{") > 0


def test_a_worker_says_what_it_owns_and_ends_in_good_order(start: Start) -> None:
    variables = {"DISPATCH": "fanout", "KAFKA_SESSION_TIMEOUT": "30s"}
    leaver, heir = start("runfanout", **variables), start("runfanout", **variables)
    leaver.wait_ready()
    heir.wait_ready()
    wait_for(lambda: all(len(shards_of(each)) == SHARDS // 2 for each in (leaver, heir)))
    assert leaver.get("/readyz")[1].startswith("128 of 256 shards: ")
    assert leaver.get("/healthz") == (200, "ok")
    assert total([leaver, heir], "scheduler_fanout_shards ") == SHARDS

    assert leaver.terminate() == 0

    # At once, not when the session has ended.
    wait_for(lambda: len(shards_of(heir)) == SHARDS, deadline=timedelta(seconds=20))
    assert heir.terminate() == 0
    assert "Traceback" not in leaver.output + heir.output


def test_a_worker_is_refused_where_the_leader_dispatches(start: Start) -> None:
    worker = start("runfanout")

    assert worker.wait() == 1

    assert "DISPATCH is leader" in worker.output
    assert "Traceback" not in worker.output
