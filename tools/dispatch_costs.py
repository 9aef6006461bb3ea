"""Measures what the moves of a job cost: `python -m tools.dispatch_costs`.

One process does what a worker and an executor do, in batches of the default size, on a mongod and a
Kafka of its own. Processor time is shown beside the clock's, as it says the same on a busy machine.
What it prints stands in docs/scaling.md, and is where the numbers of `tools.fanout_simulation` are
from.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pymongo import MongoClient

from chronos_site import env
from chronos_site.config import BrokerConfig, SchedulerConfig, StoreConfig
from devstack.kafka import Kafka
from devstack.mongo import Mongod
from devstack.server import stop_all
from jobs.attempts import completed
from jobs.broker.publisher import Publisher
from jobs.broker.topics import ensure_topics, topics_for
from jobs.executions import execution_of
from jobs.lifecycle import SHARDS, Job, Status, job_id_for
from jobs.messages import dispatch_message
from jobs.repository import Repository
from jobs.repository.dispatch import DueJob
from jobs.repository.nodes import Node
from scheduler.dispatcher import Dispatcher

JOB_TYPE: Final = "noop"
BATCH: Final = SchedulerConfig().claim_batch
BATCHES: Final = 20
_EIGHTH: Final = frozenset(range(SHARDS // 8))
_LEASE: Final = timedelta(minutes=5)

Row = tuple[str, str]


class Bench:
    """A database that is empty at first, and what works on it."""

    def __init__(self, mongod: Mongod, kafka: Kafka, publisher: Publisher, database: str) -> None:
        self.mongod = mongod
        self._servers = (mongod, kafka)
        self._database = database
        self._publisher = publisher
        self.repository = Repository.connect(StoreConfig(mongod.location, database))
        self.repository.ensure_indexes()
        self._began_at = self.repository.clock.now()
        executor = Node("one", "executor", self._began_at, (JOB_TYPE,), capacity=10**9)
        # It never falls silent.
        self.repository.nodes.report(executor, now=self._began_at + timedelta(hours=1))
        self._numbers = count()

    def new_jobs(self, jobs: int = BATCH) -> list[Job]:
        """Jobs with 100 bytes of payload, due a millisecond apart within the last minute."""
        return [
            Job(
                id=job_id_for(f"job-{number}"),
                idempotency_key=f"job-{number}",
                tenant_id="tenant-a",
                job_type=JOB_TYPE,
                status=Status.PENDING,
                payload='{"text": "' + "x" * 88 + '"}',
                scheduled_at=self._began_at - timedelta(milliseconds=60_000 - number),
                created_at=self._began_at,
                updated_at=self._began_at,
            )
            for number in (next(self._numbers) for _ in range(jobs))
        ]

    def due(self, shards: frozenset[int] | None = None) -> list[DueJob]:
        """A full batch and, as a step does, one more."""
        now = self.repository.clock.now()
        return self.repository.dispatch.due(JOB_TYPE, now=now, limit=BATCH + 1, shards=shards)

    def publish(self) -> None:
        """Wake-ups for a batch."""
        job = DueJob(job_id_for("job-0"), JOB_TYPE, 0, self._began_at)
        self._publisher.publish([dispatch_message(job)] * BATCH)

    def worker(self, batch: int = BATCH) -> Callable[[], Any]:
        """What a worker does in one turn."""
        dispatcher = Dispatcher(self.repository, self._publisher, job_types=[JOB_TYPE], batch=batch)
        return lambda: dispatcher.step(self.repository.clock.now())

    def spent(self, calls: Iterable[Callable[[], Any]]) -> str:
        """Milliseconds of a call: by the clock (median); of a core, here and in the servers."""
        took, here, served = [], 0.0, [0.0 for _ in self._servers]
        for call in calls:
            before = [_core_seconds(server.pid) for server in self._servers]
            here -= time.process_time()
            began = time.perf_counter()
            call()
            took.append(time.perf_counter() - began)
            here += time.process_time()
            for place, server in enumerate(self._servers):
                served[place] += _core_seconds(server.pid) - before[place]
        means = [seconds / len(took) for seconds in (here, *served)]
        return " | ".join(f"{1e3 * cell:.1f}" for cell in (statistics.median(took), *means))

    def bytes_of(self, database: str, collection: str) -> tuple[int, int, int]:
        """Of a collection: its documents; on disk; of its indexes."""
        client: MongoClient[dict[str, Any]] = MongoClient(self.mongod.location)
        with client:
            client.admin.command("fsync")
            found = client[database or self._database].command("collStats", collection)
        return found["size"], found["storageSize"], found["totalIndexSize"]


def _core_seconds(pid: int) -> float:
    """What a process has used of a core, for itself and in the kernel: proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def drain(bench: Bench, jobs: int = BATCH * BATCHES, batch: int = BATCH) -> Row:
    """Dispatch a backlog that no executor takes."""
    for _ in range(jobs // BATCH):
        bench.repository.jobs.insert(bench.new_jobs())
    step = bench.worker(batch)
    began = time.perf_counter()
    cells = bench.spent([step] * (jobs // batch))
    speed = jobs / (time.perf_counter() - began)
    return f"step that dispatches {batch:,}: {jobs:,} at {speed:,.0f} jobs/s", cells


def small_steps(bench: Bench) -> Iterator[Row]:
    """Steps with next to nothing to do, on an empty store."""
    step = bench.worker()
    yield "step that finds nothing", bench.spent([step] * 200)

    def each_finds_one() -> Iterator[Callable[[], Any]]:
        for _ in range(200):
            bench.repository.jobs.insert(bench.new_jobs(1))
            yield step

    yield "step that finds one job", bench.spent(each_finds_one())


def moves(bench: Bench) -> Iterator[Row]:
    """Every write of a job's life, one kind after the other, and what is read for it."""
    repository, now = bench.repository, bench.repository.clock.now
    batches = [bench.new_jobs() for _ in range(BATCHES)]
    ids = [[job.id for job in batch] for batch in batches]
    claimed: list[list[Job]] = []

    def claim(job_ids: Sequence[Any]) -> None:
        as_executor = partial(repository.claims.claim, owner="one", claim_id="-", lease=_LEASE)
        claimed.append(as_executor(job_ids, now=now(), start=True))

    queue = partial(repository.dispatch.queue, claim_id="-", now=now())
    yield "insert 1,000", bench.spent(partial(repository.jobs.insert, each) for each in batches)
    yield "find 1,001 due", bench.spent([bench.due] * BATCHES)
    eighth = partial(bench.due, _EIGHTH)
    yield "find 1,001 due, of an eighth of the shards", bench.spent([eighth] * BATCHES)
    yield "queue 1,000", bench.spent(partial(queue, each) for each in ids)
    elsewhere = [[job_id_for(f"elsewhere-{n}") for n in range(BATCH)]] * BATCHES
    yield "queue 1,000 that are elsewhere", bench.spent(partial(queue, each) for each in elsewhere)
    yield "publish 1,000", bench.spent([bench.publish] * BATCHES)
    in_flight = [repository.dispatch.in_flight] * BATCHES
    yield f"count {BATCH * BATCHES:,} in flight", bench.spent(in_flight)
    yield "claim, start and read 1,000", bench.spent(partial(claim, each) for each in ids)
    at = now()
    ends = [[completed(job, started_at=at, finished_at=at) for job in jobs] for jobs in claimed]
    records = [
        [execution_of(job, end) for job, end in zip(*each, strict=True)]
        for each in zip(claimed, ends, strict=True)
    ]
    record, finish = repository.executions.record, partial(repository.claims.finish, now=at)
    yield "record 1,000 attempts", bench.spent(partial(record, each) for each in records)
    yield "finish 1,000 alike", bench.spent(partial(finish, each) for each in ends)


def measure(new_bench: Callable[[], Bench]) -> Iterator[str]:
    """The rows of both tables, as they are measured."""
    # The first warms up Kafka's Java.
    drain(new_bench())
    yield "| call | ms | ms of a core here | in mongod | in Kafka |\n|---|---|---|---|---|"
    bench = new_bench()
    before = bench.bytes_of("local", "oplog.rs")[0]
    rows = [*moves(bench)]
    written = bench.bytes_of("local", "oplog.rs")[0] - before
    rows += small_steps(new_bench())
    rows += [drain(new_bench()) for _ in range(3)]
    rows += [drain(new_bench(), jobs=50_000), drain(new_bench(), batch=100)]
    yield from (f"| {name} | {cells} |" for name, cells in rows)
    yield "\n| bytes for each job | in BSON | on disk | indexes |\n|---|---|---|---|"
    for name, collection in (("job, finished", "jobs"), ("record of an attempt", "executions")):
        cells = " | ".join(
            f"{size / BATCH / BATCHES:.0f}" for size in bench.bytes_of("", collection)
        )
        yield f"| {name} | {cells} |"
    yield f"| oplog | {written / BATCH / BATCHES:.0f} | | |"


def main() -> None:
    """Start the servers, measure, print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    variables = env.read()
    with TemporaryDirectory() as folder, ExitStack() as cleanup:
        mongod = Mongod(Path(folder, "mongod"), binary=variables["MONGOD_BIN"])
        home, java_home = variables["KAFKA_HOME"], variables["JAVA_HOME"]
        kafka = Kafka(Path(folder, "kafka"), home=home, java_home=java_home)
        cleanup.callback(stop_all, [mongod, kafka])
        kafka.start()
        mongod.start()
        mongod.wait_ready()
        kafka.wait_ready()
        broker = BrokerConfig((kafka.address,))
        ensure_topics(broker, topics_for([JOB_TYPE]))
        publisher = Publisher(broker, "costs")
        cleanup.callback(publisher.close)
        names = (f"costs_{number}" for number in count())
        for line in measure(lambda: Bench(mongod, kafka, publisher, next(names))):
            print(line)
        print(f"\nLoad average: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
