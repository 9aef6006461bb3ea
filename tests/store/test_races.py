"""Many at once: a due job is queued by one scheduler and claimed by one executor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from threading import Barrier
from typing import Final

import pytest
from bson import ObjectId

from chronos_site.config import StoreConfig
from jobs import attempts
from jobs.lifecycle import Finish, Job, Outcome, Status
from jobs.repository import Repository
from jobs.repository.documents import from_document
from tests.builders import NOW, a_job
from tests.store.conftest import Documents

CLAIMERS: Final = 8
JOBS: Final = 5_000
LEASE: Final = timedelta(minutes=5)


@pytest.fixture
def rivals(repo: Repository, store_config: StoreConfig) -> Iterator[list[Repository]]:
    """Repositories with connections of their own, as of as many processes."""
    with ExitStack() as stack:
        made = [Repository.connect(store_config) for _ in range(CLAIMERS)]
        for repository in made:
            stack.callback(repository.close)
        yield made


def together(rivals: list[Repository], act: Callable[[int, Repository], list[ObjectId]]) -> None:
    """Have all rivals act at the same time, and require that no job fell to two of them."""
    start = Barrier(len(rivals))

    def run(number: int) -> list[ObjectId]:
        start.wait()
        return act(number, rivals[number])

    with ThreadPoolExecutor(len(rivals)) as threads:
        shares = list(threads.map(run, range(len(rivals))))
    counts = Counter(job_id for share in shares for job_id in share)
    assert len(counts) == JOBS
    assert set(counts.values()) == {1}


def test_eight_schedulers_queue_each_due_job_once(
    repo: Repository, documents: Documents, rivals: list[Repository]
) -> None:
    repo.jobs.insert([a_job(priority=number % 3) for number in range(JOBS)])

    def queue_all(number: int, rival: Repository) -> list[ObjectId]:
        mine: list[ObjectId] = []
        step = 0
        while due := rival.dispatch.due("noop", now=NOW, limit=200):
            step += 1
            claim_id = f"{number}-{step}"
            mine += rival.dispatch.queue([job.id for job in due], claim_id=claim_id, now=NOW)
        return mine

    together(rivals, queue_all)

    assert documents.count_documents({"status": "queued"}) == JOBS


def test_eight_executors_claim_each_queued_job_once(
    repo: Repository, documents: Documents, rivals: list[Repository]
) -> None:
    jobs = [a_job(status=Status.QUEUED, queued_at=NOW) for _ in range(JOBS)]
    repo.jobs.insert(jobs)
    ids = [job.id for job in jobs]

    def claim_all(number: int, rival: Repository) -> list[ObjectId]:
        # All get every message, as after a broker that delivers everything to everybody.
        mine: list[ObjectId] = []
        for first in range(0, JOBS, 200):
            claimed = rival.claims.claim(
                ids[first : first + 200],
                owner=f"e{number}",
                claim_id=f"{number}-{first}",
                lease=LEASE,
                now=NOW,
                start=number % 2 == 0,
            )
            assert {job.claimed_by for job in claimed} <= {f"e{number}"}
            mine += [job.id for job in claimed]
        return mine

    together(rivals, claim_all)

    assert documents.count_documents({"status": {"$in": ["claimed", "running"]}}) == JOBS


def test_an_end_and_a_reaper_at_the_same_time_leave_one_of_both(
    repo: Repository, documents: Documents, rivals: list[Repository]
) -> None:
    jobs = [
        a_job(status=Status.RUNNING, claim_id="c1", claimed_by="e1", lease_until=NOW)
        for _ in range(JOBS)
    ]
    repo.jobs.insert(jobs)
    later = NOW + LEASE

    def end(job: Job) -> Finish:
        return attempts.completed(job, started_at=NOW, finished_at=NOW)

    def lose(job: Job) -> Finish:
        return attempts.failed(
            job, error="", outcome=Outcome.LOST, started_at=NOW, finished_at=NOW, random=0.0
        )

    def act(number: int) -> int:
        mine = jobs[number // 2 :: CLAIMERS // 2]
        if number % 2:
            return rivals[number].claims.finish([end(job) for job in mine], now=later)
        return rivals[number].recovery.take_back([lose(job) for job in mine], now=later)

    with ThreadPoolExecutor(CLAIMERS) as threads:
        written = sum(threads.map(act, range(CLAIMERS)))

    assert written == JOBS
    stored = [from_document(document) for document in documents.find()]
    after = Counter((job.status, len(job.history)) for job in stored)
    assert after.keys() <= {(Status.COMPLETED, 1), (Status.PENDING, 1)}
    assert after.total() == JOBS
