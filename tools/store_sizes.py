"""Measures what jobs and attempts take of MongoDB's disk: `python -m tools.store_sizes`.

It stores jobs in a mongod of its own, leads them through their life by the repository, and asks
mongod for sizes in between. Payloads are random text, which hardly compresses, so the numbers are
rather too high. What it prints stands in docs/operations.md.
"""

from __future__ import annotations

import argparse
import base64
import random
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import UUID

from pymongo import MongoClient

from chronos_site import env
from chronos_site.config import StoreConfig
from devstack.mongo import Mongod
from jobs.attempts import completed
from jobs.executions import execution_of
from jobs.lifecycle import Job, Status, job_id_for
from jobs.repository import Repository

DATABASE: Final = "sizes"
BATCH: Final = 1000
_LEASE: Final = timedelta(minutes=5)


class Sizes:
    """What mongod says about a collection, for each of so many documents."""

    def __init__(self, mongod: Mongod, documents: int) -> None:
        self._location = mongod.location
        self._documents = documents

    def rows(self, what: str, collection: str) -> Iterator[str]:
        """The documents, then each index that takes a byte or more of each."""
        found = self._statistics(collection)
        size, disk = (found[key] / self._documents for key in ("size", "storageSize"))
        indexes = found["totalIndexSize"] / self._documents
        yield f"| {what} | {size:,.0f} | {disk:,.0f} | {indexes:,.0f} |"
        for name, taken in sorted(found["indexSizes"].items(), key=lambda item: -item[1]):
            if taken >= self._documents:
                yield f"| – index `{name}` | | | {taken / self._documents:,.0f} |"

    def _statistics(self, collection: str) -> Mapping[str, Any]:
        client: MongoClient[dict[str, Any]] = MongoClient(self._location)
        with client:
            client.admin.command("fsync")
            return client[DATABASE].command("collStats", collection)


def measure(mongod: Mongod, jobs: int, payload: int) -> Iterator[str]:
    """The table: jobs that wait, jobs that ended, and the records of their attempts."""
    chance = random.Random(1)
    repository = Repository.connect(StoreConfig(mongod.location, DATABASE))
    repository.ensure_indexes()
    sizes = Sizes(mongod, jobs)
    batches = [
        [_job(chance, repository, payload) for _ in range(BATCH)] for _ in range(jobs // BATCH)
    ]
    for batch in batches:
        repository.jobs.insert(batch)
    yield f"| {jobs:,} jobs, {payload} bytes of payload: bytes for each | BSON | disk | indexes |"
    yield "|---|---|---|---|"
    yield from sizes.rows("job, pending", "jobs")
    for batch in batches:
        _run(repository, batch)
    yield from sizes.rows("job, completed", "jobs")
    yield from sizes.rows("record of an attempt", "executions")
    repository.close()


def _job(chance: random.Random, repository: Repository, payload: int) -> Job:
    key = str(UUID(int=chance.getrandbits(128)))
    text = base64.b64encode(chance.randbytes(payload)).decode()
    now = repository.clock.now()
    return Job(
        id=job_id_for(key),
        idempotency_key=key,
        tenant_id=f"tenant-{chance.randrange(10)}",
        job_type="noop",
        status=Status.PENDING,
        payload=f'{{"text": "{text[: payload - 12]}"}}',
        scheduled_at=now + timedelta(milliseconds=chance.randrange(3_600_000)),
        created_at=now,
        updated_at=now,
    )


def _run(repository: Repository, batch: list[Job]) -> None:
    now = repository.clock.now()
    ids = [job.id for job in batch]
    repository.dispatch.queue(ids, claim_id="-", now=now)
    claimed = repository.claims.claim(
        ids, owner="executor-1", claim_id="-", lease=_LEASE, now=now, start=True
    )
    ends = [completed(job, started_at=now, finished_at=now) for job in claimed]
    records = [execution_of(job, end) for job, end in zip(claimed, ends, strict=True)]
    repository.executions.record(records)
    repository.claims.finish(ends, now=now)


def main() -> None:
    """Start mongod, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.store_sizes", description="Measures what jobs take of the disk."
    )
    parser.add_argument("--jobs", type=int, default=100_000, help="default: 100,000")
    parser.add_argument("--payload", type=int, default=100, help="bytes; default: 100")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        mongod = Mongod(Path(folder, "mongod"), binary=env.read()["MONGOD_BIN"])
        mongod.start()
        try:
            mongod.wait_ready()
            for line in measure(mongod, options.jobs, options.payload):
                print(line)
        finally:
            mongod.stop()


if __name__ == "__main__":
    main()
