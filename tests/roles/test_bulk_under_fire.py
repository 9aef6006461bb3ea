"""Bulk operations while jobs die again, reapers are killed, and two people want the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

import pytest
from pymongo.collection import Collection

from executor.executor import Executor
from jobs.audit import Action, Author, Via
from jobs.bulk import Filter, Kind, Operation, State
from jobs.bulk_services import BulkServices
from jobs.lifecycle import Job, Status
from jobs.registry import Context, Fail
from jobs.repository import Repository
from scheduler.scheduler import Scheduler
from tests.processes import RoleProcess
from tests.waiting import wait_for

ALICE: Final = Author("alice", Via.ADMIN)
BOB: Final = Author("bob", Via.ADMIN)
DEAD: Final = 213
PATIENCE: Final = timedelta(seconds=60)
StartRole = Callable[..., RoleProcess]


@pytest.fixture
def dead(repo: Repository, insert: Callable[..., list[Job]]) -> list[Job]:
    """Dead letters, one of which somebody edited so that it cannot be read."""
    ended_at = repo.clock.now() - timedelta(seconds=1)
    jobs = insert(DEAD, status=Status.DLQ, finished_at=ended_at, last_error="why", max_attempts=1)
    repo.jobs._jobs.update_one({"_id": jobs[7].id}, {"$set": {"maxAttempts": "x"}})
    return jobs


def start(repo: Repository, kind: Kind, by: Author, job: Job) -> Operation:
    return BulkServices(repo).start(kind, Filter(job_type=job.job_type), tenants=None, by=by)


def over(repo: Repository, operations: Sequence[Operation]) -> list[Operation]:
    """They, once all have ended."""

    def look() -> list[Operation]:
        found = [repo.bulk.find(each.id, None) for each in operations]
        return [each for each in found if each is not None]

    wait_for(lambda: all(each.is_over for each in look()), deadline=PATIENCE, show=look)
    return look()


def moved(repo: Repository, operation: Operation, action: Action) -> list[str]:
    """The ids that the audit log says it has moved."""
    entries, _ = repo.audit_log.page(
        None, limit=1_000, action=action, operation_id=str(operation.id)
    )
    assert {entry.author for entry in entries} <= {operation.author}
    return [target for entry in entries for target in entry.targets]


def killed_midway(repo: Repository, operation: Operation, start_role: StartRole) -> None:
    """Two reapers that begin it, each killed after a part; and one that is left to end it."""

    def now() -> Operation:
        found = repo.bulk.find(operation.id, None)
        assert found is not None
        return found

    for reaper in [start_role("runreaper", BULK_RATE="40") for _ in range(2)]:
        done = now().done
        wait_for(partial(lambda done: now().done > done or now().is_over, done), deadline=PATIENCE)
        reaper.kill()
    start_role("runreaper", BULK_RATE="400")


def test_each_dead_letter_is_redriven_once_whoever_dies_meanwhile(
    repo: Repository,
    dead: list[Job],
    start_role: StartRole,
    start_scheduler: Callable[..., Scheduler],
    start_executor: Callable[..., Executor],
    documents: Collection[dict[str, Any]],
) -> None:
    calls: Counter[str] = Counter()

    def handle(context: Context) -> None:
        calls[str(context.job_id)] += 1
        # Half of them die again, while the operation goes on.
        if int(str(context.job_id), 16) % 2:
            raise Fail("again")

    start_executor(handle, concurrency=8)
    start_scheduler()
    operation = start(repo, Kind.REDRIVE, ALICE, dead[0])

    killed_midway(repo, operation, start_role)

    [ended] = over(repo, [operation])
    assert (ended.state, ended.total, ended.done) == (State.COMPLETED, DEAD, DEAD - 1)
    assert (ended.skipped, ended.gone) == ({"unreadable": 1}, 0)
    readable = sorted(str(job.id) for job in dead if job is not dead[7])
    assert sorted(moved(repo, ended, Action.JOB_REDRIVE)) == readable
    wait_for(lambda: len(calls) == DEAD - 1, deadline=PATIENCE)
    ends = {"$in": ["completed", "dlq"]}
    query = {"_id": {"$in": [job.id for job in dead]}, "status": ends}
    wait_for(lambda: documents.count_documents(query) == DEAD, deadline=PATIENCE)
    assert set(calls.values()) == {1}
    again = [int(job_id, 16) % 2 == 1 for job_id in readable].count(True)
    assert documents.count_documents({"status": "dlq", "lastError": "again"}) == again


@pytest.mark.parametrize("kinds", [(Kind.REDRIVE, Kind.REDRIVE), (Kind.REDRIVE, Kind.DISCARD)])
def test_two_who_want_the_same_share_it_and_are_both_counted_right(
    repo: Repository, dead: list[Job], start_role: StartRole, kinds: tuple[Kind, Kind]
) -> None:
    reapers = [start_role("runreaper", BULK_RATE="200") for _ in range(2)]
    for reaper in reapers:
        reaper.wait_ready()
    operations = [
        start(repo, kind, by, dead[0]) for kind, by in zip(kinds, (ALICE, BOB), strict=True)
    ]

    both = over(repo, operations)

    actions = {Kind.REDRIVE: Action.JOB_REDRIVE, Kind.DISCARD: Action.JOB_DISCARD}
    ids = [moved(repo, each, actions[each.kind]) for each in both]
    assert [each.state for each in both] == [State.COMPLETED] * 2
    assert [len(each) for each in ids] == [each.done for each in both]
    # The one that cannot be read may be discarded, not redriven.
    taken = DEAD if Kind.DISCARD in kinds else DEAD - 1
    assert len({*ids[0], *ids[1]}) == len(ids[0]) + len(ids[1]) == taken
    for each in both:
        assert each.total == each.done + each.left_alone + each.gone == DEAD
