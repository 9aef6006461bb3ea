"""Bulk operations: each dead letter is moved once, whoever does the parts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId, encode

from jobs.audit import Action, Author, Via
from jobs.bulk import Filter, Kind, Operation, State
from jobs.bulk_services import BulkServices
from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from jobs.repository.documents import to_document
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

ALICE = Author("alice", Via.ADMIN)
SECOND = timedelta(seconds=1)
NO_PAUSE = timedelta(0)


def dead(repo: Repository, count: int = 1, **fields: Any) -> list[Job]:
    """Dead letters of one error, a second apart."""
    values: dict[str, Any] = {"status": Status.DLQ, "last_error": "order 1 is gone", "attempts": 3}
    jobs = [
        a_job(**values | {"finished_at": NOW + number * SECOND} | fields) for number in range(count)
    ]
    repo.jobs.insert(jobs)
    repo.dead_letters.assign_groups()
    return jobs


def started(repo: Repository, kind: Kind = Kind.REDRIVE, **fields: Any) -> Operation:
    return BulkServices(repo).start(kind, Filter(**fields), tenants=None, by=ALICE)


def turn(repo: Repository, operation: Operation, size: int = 100) -> Operation | None:
    now = max(repo.clock.now(), operation.started_at)
    return repo.bulk.take_turn(operation.id, size=size, pause=NO_PAUSE, runner="r1", now=now)


def found(repo: Repository, operation: Operation) -> Operation:
    there = repo.bulk.find(operation.id, None)
    assert there is not None
    return there


def statuses(repo: Repository, jobs: list[Job]) -> list[Status]:
    return [repo.jobs.get(job.id).status for job in jobs]


def test_a_redrive_goes_from_part_to_part_until_all_are_pending(repo: Repository) -> None:
    jobs = dead(repo, 5)
    operation = started(repo)

    parts = [turn(repo, operation, size=2) for _ in range(4)]

    assert [part and (part.state, part.done) for part in parts] == [
        (State.RUNNING, 2),
        (State.RUNNING, 4),
        (State.COMPLETED, 5),
        None,
    ]
    after = [repo.jobs.get(job.id) for job in jobs]
    assert {(job.status, job.attempts, job.finished_at) for job in after} == {
        (Status.PENDING, 0, None)
    }
    assert repo.bulk.next_turn() is None


def test_each_part_is_in_the_audit_log_with_the_ids_that_moved(repo: Repository) -> None:
    jobs = dead(repo, 2) + dead(repo, 1, tenant_id="tenant-b")
    operation = started(repo, Kind.DISCARD)

    turn(repo, operation)

    entries, _ = repo.audit_log.page(None, limit=10, operation_id=str(operation.id))
    told = {
        (entry.action, entry.author.name, entry.tenant_id, len(entry.targets)) for entry in entries
    }
    assert told == {
        (Action.BULK_START, "alice", "", 1),
        (Action.JOB_DISCARD, "alice", "tenant-a", 2),
        (Action.JOB_DISCARD, "alice", "tenant-b", 1),
        (Action.BULK_END, "r1", "", 1),
    }
    assert statuses(repo, jobs) == [Status.CANCELLED] * 3


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        ({"tenant_id": "tenant-b"}, [1]),
        ({"job_type": "slow"}, [2]),
        ({"definition": "hook"}, [3]),
        ({"definition": ""}, [0, 1, 2, 4]),
        ({"error_group": "card # declined"}, [4]),
        ({"error_text": "CARD 7"}, [4]),
        ({"error_text": ".*"}, []),
        ({"since": NOW + SECOND}, [1]),
        ({"until": NOW + SECOND}, [0, 2, 3, 4]),
    ],
)
def test_a_filter_takes_what_the_groups_count(
    repo: Repository, fields: dict[str, Any], taken: list[int]
) -> None:
    jobs = [
        *dead(repo),
        *dead(repo, tenant_id="tenant-b", finished_at=NOW + SECOND),
        *dead(repo, job_type="slow"),
        *dead(repo, definition="hook"),
        *dead(repo, last_error="card 7 declined"),
    ]
    shown = repo.dead_letter_lists.page(Filter(**fields), None, limit=10).jobs
    operation = started(repo, **fields)

    turn(repo, operation)

    after = statuses(repo, jobs)
    assert [place for place, each in enumerate(after) if each is Status.PENDING] == taken
    assert {each.id for each in shown} == {jobs[place].id for place in taken}
    assert (operation.total, found(repo, operation).done) == (len(taken), len(taken))


def test_groups_tell_how_many_died_of_what_and_when(repo: Repository) -> None:
    dead(repo, 3)
    dead(repo, 1, definition="hook", tenant_id="tenant-b")
    repo.jobs.insert([a_job()])

    groups = repo.dead_letter_lists.groups(Filter(), None)
    theirs = repo.dead_letter_lists.groups(Filter(), ["tenant-b"])

    assert groups.is_complete
    assert groups.count == 4
    first = groups.groups[0]
    assert (first.tenant_id, first.job_type, first.definition) == ("tenant-a", "noop", "")
    assert (first.error, first.count) == ("order # is gone", 3)
    assert (first.first_at, first.last_at) == (NOW, NOW + 2 * SECOND)
    assert [group.tenant_id for group in theirs.groups] == ["tenant-b"]
    assert repo.dead_letter_lists.groups(first.filter, None).count == 3
    assert repo.dead_letter_lists.groups(first.filter, ["tenant-b"]).count == 0


def test_one_that_somebody_else_has_moved_is_gone(repo: Repository) -> None:
    jobs = dead(repo, 3)
    operation = started(repo)
    repo.interventions.discard(jobs[1].id, now=NOW)

    turn(repo, operation)

    after = found(repo, operation)
    assert (after.total, after.done, after.gone) == (3, 2, 1)
    assert repo.jobs.get(jobs[1].id).status is Status.CANCELLED


def test_what_dies_after_the_start_is_not_taken(repo: Repository) -> None:
    dead(repo)
    operation = started(repo)
    [later] = dead(repo, finished_at=operation.started_at + SECOND)

    turn(repo, operation)

    assert repo.jobs.get(later.id).status is Status.DLQ


def test_a_template_goes_on_with_its_next_occurrence(repo: Repository) -> None:
    template = a_template(status=Status.DLQ, finished_at=NOW)
    broken = a_template(status=Status.DLQ, finished_at=NOW, cron="nonsense")
    repo.jobs.insert([template, broken])
    operation = started(repo)

    turn(repo, operation)

    assert repo.jobs.get(template.id).scheduled_at > operation.started_at
    assert repo.jobs.get(broken.id).status is Status.DLQ
    assert found(repo, operation).skipped == {"never due": 1}


def test_what_cannot_be_read_or_moved_holds_nothing_up(
    repo: Repository, documents: Documents
) -> None:
    jobs = dead(repo, 4)
    documents.update_one({"_id": jobs[0].id}, {"$set": {"payload": "x", "maxAttempts": "3"}})
    # Two arrays in one index: it cannot be pending.
    parallel = {"priority": [1, 2], "jobType": ["noop", "slow"]}
    documents.update_one({"_id": jobs[1].id}, {"$set": parallel})
    redrive, discard = started(repo), started(repo, Kind.DISCARD)

    turn(repo, redrive)
    turn(repo, discard)

    assert found(repo, redrive).done == 2
    assert found(repo, redrive).left_alone == 2
    assert found(repo, discard).done == 2
    assert statuses(repo, jobs[2:]) == [Status.PENDING] * 2


def test_what_mongodb_refuses_is_counted_and_the_rest_goes_on(
    repo: Repository, documents: Documents
) -> None:
    jobs = dead(repo, 3)
    document = to_document(a_job(status=Status.DLQ, finished_at=NOW)) | {"filler": ""}
    room = 16 * 1024 * 1024 - len(encode(document))
    # The name of its next status is longer.
    documents.insert_one(document | {"filler": "x" * room})
    operation = started(repo, Kind.DISCARD)

    turn(repo, operation)

    after = found(repo, operation)
    assert (after.state, after.done) == (State.COMPLETED, 3)
    assert after.skipped == {"refused": 1}
    assert statuses(repo, jobs) == [Status.CANCELLED] * 3


def test_two_that_try_the_same_parts_move_each_dead_letter_once(repo: Repository) -> None:
    jobs = dead(repo, 60)
    operation = started(repo)

    def work(_: int) -> None:
        while not found(repo, operation).is_over:
            turn(repo, operation, size=5)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))

    entries, _ = repo.audit_log.page(
        None, limit=100, operation_id=str(operation.id), action=Action.JOB_REDRIVE
    )
    moved = [target for entry in entries for target in entry.targets]
    assert sorted(moved) == sorted(str(job.id) for job in jobs)
    assert found(repo, operation).done == 60


def test_a_part_before_its_time_does_nothing(repo: Repository) -> None:
    dead(repo, 2)
    operation = started(repo)
    now = repo.clock.now()

    def take() -> Operation | None:
        return repo.bulk.take_turn(operation.id, size=1, pause=SECOND, runner="r1", now=now)

    assert take() is not None
    assert take() is None
    following = repo.bulk.next_turn()
    assert following is not None
    assert following.at == now + SECOND


def test_a_cancelled_operation_keeps_what_it_has_done(repo: Repository) -> None:
    jobs = dead(repo, 3)
    operation = started(repo)
    turn(repo, operation, size=1)

    assert repo.bulk.cancel(operation.id, by=ALICE, now=NOW)

    assert turn(repo, operation) is None
    assert not repo.bulk.cancel(operation.id, by=ALICE, now=NOW)
    assert statuses(repo, jobs) == [Status.DLQ, Status.DLQ, Status.PENDING]
    assert found(repo, operation).state is State.CANCELLED
    [entry], _ = repo.audit_log.page(None, limit=10, action=Action.BULK_CANCEL)
    assert entry.before == {"state": "running"}
    assert (entry.after["state"], entry.after["done"]) == ("cancelled", 1)


def test_an_operation_is_seen_by_who_may_see_all_that_it_is_about(repo: Repository) -> None:
    services = BulkServices(repo)
    everything = started(repo)
    both = services.start(Kind.REDRIVE, Filter(), tenants=["a", "b"], by=ALICE)
    one = services.start(Kind.REDRIVE, Filter(tenant_id="a"), tenants=["a", "b"], by=ALICE)

    def seen(tenants: list[str] | None) -> list[ObjectId]:
        return [each.id for each in services.recent(tenants=tenants, limit=10)[0]]

    assert set(seen(None)) == {everything.id, both.id, one.id}
    assert set(seen(["a", "b"])) == {both.id, one.id}
    assert seen(["a"]) == [one.id]
    assert seen([]) == []
    assert services.find(both.id, tenants=["a"]) is None


def test_a_filter_for_another_tenant_takes_nothing(repo: Repository) -> None:
    [job] = dead(repo)
    services = BulkServices(repo)

    operation = services.start(Kind.DISCARD, Filter(tenant_id="tenant-a"), tenants=["b"], by=ALICE)
    turn(repo, operation)

    assert operation.total == 0
    assert repo.jobs.get(job.id).status is Status.DLQ


def test_an_operation_edited_by_hand_is_left_out_and_can_be_given_up(
    repo: Repository, documents: Documents
) -> None:
    good, bad = started(repo), started(repo)
    documents.database["bulk_operations"].update_one({"_id": bad.id}, {"$set": {"done": "x"}})

    assert [each.id for each in repo.bulk.page(None, limit=10)[0]] == [good.id]
    with pytest.raises(ValueError, match="done"):
        turn(repo, bad)
    assert repo.bulk.fail(bad.id, "It cannot be read.", runner="r1", now=NOW)
    following = repo.bulk.next_turn()
    assert following is not None
    assert following.operation_id == good.id


def test_what_is_stored_reads_back(repo: Repository) -> None:
    wanted = Filter(tenant_id="a", error_text="x", since=NOW)

    operation = BulkServices(repo).start(Kind.DISCARD, wanted, tenants=None, by=ALICE)

    assert found(repo, operation) == operation
    assert replace(operation.filter, until=None) == wanted
