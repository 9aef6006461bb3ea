"""MongoDB and Kafka go away and come back: nothing is lost, and everybody goes on by himself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo.collection import Collection

from devstack.kafka import Kafka
from devstack.mongo import Mongod
from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from tests.processes import RoleProcess
from tests.records import read_runs
from tests.waiting import wait_for

Start = Callable[..., RoleProcess]
Insert = Callable[..., list[Job]]
CountByStatus = Callable[[list[Job]], Counter[str]]

PATIENCE = timedelta(seconds=120)
CLAIM_TIMEOUT = timedelta(seconds=6)
KAFKA_AWAY = timedelta(seconds=60)


@pytest.fixture
def mongo_server(private_mongod: Callable[[], Mongod]) -> Mongod:
    """In place of the run's: this one is killed."""
    return private_mongod()


@pytest.fixture
def kafka_server(private_kafka: Callable[[], Kafka]) -> Kafka:
    return private_kafka()


def test_every_role_outlives_mongodb_and_kafka(
    mongo_server: Mongod,
    kafka_server: Kafka,
    start: Start,
    repo: Repository,
    insert: Insert,
    documents: Collection[dict[str, Any]],
    count_by_status: CountByStatus,
    record_file: Path,
) -> None:
    scheduler, reaper = start("runscheduler"), start("runreaper")
    executor = start("runexecutor", "--concurrency", "4")
    roles = (scheduler, executor, reaper)
    for role in roles:
        role.wait_ready()

    # MongoDB is killed while handlers run, for longer than their leases.
    jobs = insert(8, sleepMs=2000)
    wait_for(lambda: count_by_status(jobs)[Status.RUNNING] == 4)
    mongo_server.kill()
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda role: role.get("/readyz"), roles))
    for status, text in answers:
        assert status == 503
        assert "MongoDB does not answer" in text
    assert [role.get("/healthz") for role in roles] == [(200, "ok")] * 3
    back_at = time.monotonic() + CLAIM_TIMEOUT.total_seconds()
    wait_for(lambda: time.monotonic() > back_at)
    mongo_server.restart()
    wait_for(lambda: count_by_status(jobs) == {Status.COMPLETED: 8}, deadline=PATIENCE)
    for role in roles:
        role.wait_ready()

    # Kafka is killed and stays away.
    late = insert(20, sleepMs=1000)
    wait_for(lambda: count_by_status(late)[Status.RUNNING] == 4)
    kafka_server.kill()
    back_at = time.monotonic() + KAFKA_AWAY.total_seconds()
    now = repo.clock.now()
    during = insert(100) + [
        insert(1, scheduled_at=now + n * timedelta(milliseconds=500))[0] for n in range(100)
    ]
    templates = [insert(1, cron="* * * * *")[0] for _ in range(5)]
    # Orderly, also now: the second executor comes while Kafka is still away.
    assert executor.terminate() == 0
    executor = start("runexecutor", "--concurrency", "4")
    wait_for(lambda: time.monotonic() > back_at, deadline=2 * KAFKA_AWAY)
    statuses = count_by_status(during)
    assert statuses[Status.COMPLETED] == 0
    status, text = scheduler.get("/readyz")
    assert status == 503
    assert "Kafka does not answer" in text
    kafka_server.restart()
    every_job = [*jobs, *late, *during]
    wait_for(
        lambda: count_by_status(every_job) == {Status.COMPLETED: len(every_job)},
        deadline=PATIENCE,
        show=lambda: count_by_status(every_job),
    )

    assert scheduler.is_alive
    assert reaper.is_alive
    assert documents.count_documents({"attempts": {"$gt": 0}}) == 0
    runs = read_runs(record_file)
    assert {str(job.id) for job in every_job} <= runs.keys()
    assert {len(each) for each in runs.values()} == {1}
    occurrences = [
        documents.count_documents({"templateId": t.id, "occurrenceAt": t.scheduled_at})
        for t in templates
    ]
    assert occurrences == [1] * 5
