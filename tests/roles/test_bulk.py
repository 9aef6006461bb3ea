"""The reaper does bulk operations: at once, no faster than it may, and whoever dies meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from jobs.audit import Action, Author, Via
from jobs.bulk import Filter, Kind, Operation, State
from jobs.bulk_services import BulkServices
from jobs.lifecycle import Job, Status
from jobs.loop import run
from jobs.repository import Repository
from reaper.bulk import BulkRunner
from tests.processes import RoleProcess
from tests.waiting import wait_for

ALICE = Author("alice", Via.ADMIN)
Insert = Callable[..., list[Job]]
StartRunner = Callable[..., None]


@pytest.fixture
def start_runner(repo: Repository) -> Iterator[StartRunner]:
    """Starts a thread that does operations, so many dead letters a second."""
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def start(rate: int = 10_000) -> None:
        runner = BulkRunner(f"reaper-{len(threads)}", rate, repository=repo, stop=stop)
        threads.append(
            threading.Thread(
                target=run, args=(runner,), kwargs={"clock": repo.clock.now, "stop": stop}
            )
        )
        threads[-1].start()

    yield start
    stop.set()
    for thread in threads:
        thread.join()


@pytest.fixture
def dead(repo: Repository, insert: Insert) -> Callable[[int], list[Job]]:
    """Stores dead letters that have just ended."""

    def dead(count: int) -> list[Job]:
        ended_at = repo.clock.now() - timedelta(seconds=1)
        return insert(count, status=Status.DLQ, finished_at=ended_at, last_error="why")

    return dead


def start_operation(repo: Repository, kind: Kind = Kind.REDRIVE) -> Operation:
    return BulkServices(repo).start(kind, Filter(), tenants=None, by=ALICE)


def now_of(repo: Repository, operation: Operation) -> Operation:
    there = repo.bulk.find(operation.id, None)
    assert there is not None
    return there


def ended(repo: Repository, operation: Operation) -> Operation:
    wait_for(lambda: now_of(repo, operation).is_over, show=lambda: now_of(repo, operation))
    return now_of(repo, operation)


def test_an_operation_is_begun_without_waiting_for_a_sweep(
    repo: Repository, dead: Callable[[int], list[Job]], start_runner: StartRunner
) -> None:
    start_runner()
    jobs = dead(250)
    operation = start_operation(repo)

    over = ended(repo, operation)

    assert (over.state, over.done, over.total) == (State.COMPLETED, 250, 250)
    assert over.ended_at is not None
    assert over.ended_at - over.started_at < timedelta(seconds=10)
    assert {repo.jobs.get(job.id).status for job in jobs} == {Status.PENDING}


def test_no_more_are_moved_in_a_second_than_may_be(
    repo: Repository, dead: Callable[[int], list[Job]], start_runner: StartRunner
) -> None:
    dead(30)
    begun = time.monotonic()
    operation = start_operation(repo)
    start_runner(10)
    start_runner(10)

    ended(repo, operation)

    # Parts of ten: at once, after one second, after two.
    assert time.monotonic() - begun >= 1.9


def test_an_operation_behind_a_long_one_does_not_wait_for_its_end(
    repo: Repository, dead: Callable[[int], list[Job]], start_runner: StartRunner
) -> None:
    dead(1_000)
    long = start_operation(repo)
    start_runner(20)
    wait_for(lambda: now_of(repo, long).done)

    short = BulkServices(repo).start(
        Kind.DISCARD, Filter(tenant_id="nobody"), tenants=None, by=ALICE
    )

    assert ended(repo, short).state is State.COMPLETED
    assert not now_of(repo, long).is_over
    assert BulkServices(repo).cancel(long.id, by=ALICE)


def test_a_cancelled_operation_stops_where_it_is(
    repo: Repository, dead: Callable[[int], list[Job]], start_runner: StartRunner
) -> None:
    dead(200)
    operation = start_operation(repo)
    start_runner(20)
    wait_for(lambda: now_of(repo, operation).done)

    assert BulkServices(repo).cancel(operation.id, by=ALICE)

    done = now_of(repo, operation).done
    follower = start_operation(repo, Kind.DISCARD)
    wait_for(lambda: now_of(repo, follower).done)
    assert 0 < now_of(repo, operation).done == done < 200


def test_one_that_cannot_be_gone_on_with_fails_and_holds_nothing_up(
    repo: Repository,
    dead: Callable[[int], list[Job]],
    start_runner: StartRunner,
) -> None:
    dead(3)
    bad, good = start_operation(repo), start_operation(repo)
    repo.bulk._operations.update_one({"_id": bad.id}, {"$set": {"skipped": {"refused": "x"}}})

    start_runner()

    assert ended(repo, good).done == 3
    repo.bulk._operations.update_one({"_id": bad.id}, {"$set": {"skipped": {}}})
    failed = now_of(repo, bad)
    assert failed.state is State.FAILED
    assert "refused" in (failed.failure or "")


def test_a_reaper_goes_on_where_one_was_killed(
    repo: Repository,
    dead: Callable[[int], list[Job]],
    start_role: Callable[..., RoleProcess],
    start_runner: StartRunner,
) -> None:
    jobs = dead(300)
    first = start_role("runreaper", BULK_RATE="50")
    operation = start_operation(repo)
    wait_for(lambda: now_of(repo, operation).done)

    first.kill()
    start_runner()

    over = ended(repo, operation)
    assert (over.state, over.done) == (State.COMPLETED, 300)
    entries, _ = repo.audit_log.page(
        None, limit=300, operation_id=str(operation.id), action=Action.JOB_REDRIVE
    )
    moved = [target for entry in entries for target in entry.targets]
    assert sorted(moved) == sorted(str(job.id) for job in jobs)
