"""What people do is in the audit log when it is done, and only then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any, Final

import pytest

from chronos_site.config import StoreConfig
from jobs.audit import API_CLIENT, Action, Author, Entry, Via
from jobs.lifecycle import Attempt, Job, Outcome, Status
from jobs.repository import Repository
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

ALICE: Final = Author("alice", Via.ADMIN)
LATER: Final = NOW + timedelta(minutes=1)
SHOWN_NOW: Final = "2026-01-15T12:00:00Z"
SHOWN_LATER: Final = "2026-01-15T12:01:00Z"

Act = Callable[[Repository, Job], object]
Shown = Mapping[str, Any]


def dead(**fields: Any) -> Job:
    return a_job(
        status=Status.DLQ,
        attempts=3,
        finished_at=NOW,
        last_error="why",
        history=(Attempt(3, "e1", NOW, NOW, Outcome.FAILED, "why"),),
        **fields,
    )


MOVES: Final[Mapping[str, tuple[Job, Act, Action, Shown, Shown]]] = {
    "cancel": (
        a_job(status=Status.RUNNING, claim_id="c1", claimed_by="e1", lease_until=LATER),
        lambda repo, job: repo.interventions.cancel(job.id, now=LATER, by=ALICE),
        Action.JOB_CANCEL,
        {"status": "running", "leaseUntil": SHOWN_LATER},
        {"status": "cancelled", "finishedAt": SHOWN_LATER},
    ),
    "redrive": (
        dead(),
        lambda repo, job: repo.interventions.redrive(job.id, due_at=LATER, now=LATER, by=ALICE),
        Action.JOB_REDRIVE,
        {"status": "dlq", "scheduledAt": SHOWN_NOW, "attempts": 3, "finishedAt": SHOWN_NOW},
        {"status": "pending", "scheduledAt": SHOWN_LATER, "attempts": 0},
    ),
    "discard": (
        dead(),
        lambda repo, job: repo.interventions.discard(job.id, now=LATER, by=ALICE),
        Action.JOB_DISCARD,
        {"status": "dlq"},
        {"status": "cancelled"},
    ),
    "reschedule": (
        a_job(),
        lambda repo, job: repo.interventions.reschedule(job.id, due_at=LATER, now=LATER, by=ALICE),
        Action.JOB_RESCHEDULE,
        {"scheduledAt": SHOWN_NOW},
        {"scheduledAt": SHOWN_LATER},
    ),
    "hasten": (
        a_job(scheduled_at=LATER + timedelta(days=1)),
        lambda repo, job: repo.interventions.hasten(job.id, now=LATER, by=ALICE),
        Action.JOB_RUN_NOW,
        {"scheduledAt": "2026-01-16T12:01:00Z"},
        {"scheduledAt": SHOWN_LATER},
    ),
    "change priority": (
        a_job(),
        lambda repo, job: repo.interventions.change_priority(job.id, -7, now=LATER, by=ALICE),
        Action.JOB_PRIORITY,
        {"priority": 0},
        {"priority": -7},
    ),
    "pause": (
        a_template(),
        lambda repo, job: repo.interventions.pause(job.id, now=LATER, by=ALICE),
        Action.TEMPLATE_PAUSE,
        {"status": "pending"},
        {"status": "paused", "pausedBy": "alice", "pausedAt": SHOWN_LATER},
    ),
    "resume": (
        a_template(status=Status.PAUSED, scheduled_at=NOW),
        lambda repo, job: repo.interventions.resume(job.id, next_at=LATER, now=LATER, by=ALICE),
        Action.TEMPLATE_RESUME,
        {"status": "paused", "scheduledAt": SHOWN_NOW},
        {"status": "pending", "scheduledAt": SHOWN_LATER},
    ),
}


def entries(repo: Repository) -> list[Entry]:
    return repo.audit_log.page(None, limit=100)[0]


@pytest.mark.parametrize("name", MOVES)
def test_a_move_leaves_one_entry_with_what_it_changed(repo: Repository, name: str) -> None:
    job, act, action, before, after = MOVES[name]
    repo.jobs.insert([job])

    assert act(repo, job) is not None

    (entry,) = entries(repo)
    assert (entry.author, entry.action, entry.at) == (ALICE, action, LATER)
    assert (entry.tenant_id, entry.targets) == ("tenant-a", (str(job.id),))
    assert (entry.before, entry.after) == (before, after)


@pytest.mark.parametrize("name", MOVES)
def test_a_refused_move_leaves_none(repo: Repository, name: str) -> None:
    job, act, *_ = MOVES[name]
    completed = a_job(status=Status.COMPLETED)
    repo.jobs.insert([completed])

    assert act(repo, completed) is None
    assert act(repo, job) is None

    assert entries(repo) == []


@pytest.mark.parametrize("name", MOVES)
def test_of_eight_who_race_for_one_move_each_winner_leaves_one_entry(
    repo: Repository, store_config: StoreConfig, name: str
) -> None:
    job, act, *_ = MOVES[name]
    repo.jobs.insert([job])
    everybody = Barrier(8)

    def race(_: int) -> bool:
        everybody.wait()
        return act(repo, job) is not None

    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(race, range(8)))

    # What moves nothing out of its status may be done again and again.
    assert sum(won) == (8 if "status" not in MOVES[name][3] else 1)
    assert len(entries(repo)) == sum(won)


def test_a_move_whose_entry_cannot_be_written_is_not_made(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job()
    repo.jobs.insert([job])

    class Crash(Exception):
        pass

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(repo.audit_log, "append", crash)
        with pytest.raises(Crash):
            repo.interventions.cancel(job.id, now=LATER)

    assert repo.jobs.get(job.id) == job


def test_a_new_job_and_its_entry_are_stored_together(repo: Repository) -> None:
    old, new = a_job(), a_job(payload='{"a.b":[1]}', delivery='{"url":"u","secret":"sealed"}')

    assert repo.interventions.add(new, made_from=old.id, action=Action.JOB_CLONE)
    assert not repo.interventions.add(new, made_from=old.id, action=Action.JOB_CLONE)

    assert repo.jobs.get(new.id) == new
    (entry,) = entries(repo)
    assert entry.author == API_CLIENT
    assert entry.targets == (str(old.id), str(new.id))
    assert entry.before == {}
    assert entry.after == {
        "idempotencyKey": new.idempotency_key,
        "tenantId": "tenant-a",
        "jobType": "noop",
        "priority": 0,
        "status": "pending",
        "scheduledAt": SHOWN_NOW,
        "attempts": 0,
        "maxAttempts": 3,
        "createdAt": SHOWN_NOW,
        "payload": {"a.b": [1]},
        "delivery": {"url": "u", "hasSecret": True},
    }


def test_what_cannot_be_read_leaves_an_entry_too(repo: Repository, documents: Documents) -> None:
    job = a_job()
    repo.jobs.insert([job])
    nonsense = {"tenantId": 7, "finishedAt": float("nan"), "leaseUntil": {"$a": [job.id, NOW]}}
    documents.update_one({"_id": job.id}, {"$set": nonsense})

    assert repo.interventions.cancel(job.id, now=LATER) is not None

    (entry,) = entries(repo)
    assert entry.tenant_id == ""
    assert entry.before == {
        "status": "pending",
        "finishedAt": "nan",
        "leaseUntil": {"$a": [str(job.id), SHOWN_NOW]},
    }
