"""What people do by the use cases, and what of it the audit log tells."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

import pytest
from bson import ObjectId

from jobs.audit import API_CLIENT, Action, Author, Entry, Via
from jobs.errors import DefinitionExists, InvalidJob, JobNotFound, VersionMismatch, WrongState
from jobs.fields import KEY_LENGTH
from jobs.lifecycle import Attempt, Job, Outcome, Status
from jobs.repository.documents import BrokenJob
from jobs.services import Services
from tests.builders import NOW, a_job, a_template
from tests.web.client import Api
from tests.web.definitions import BEARER, ONE, SEALED, SIGNING_KEY, create, definition, put

ALICE: Final = Author("alice", Via.ADMIN)
LATER: Final = datetime(2999, 1, 1, 12, tzinfo=UTC)


def entries(use_cases: Services) -> list[Entry]:
    """All that was done, the oldest first."""
    return use_cases.repository.audit_log.page(None, limit=100)[0][::-1]


def stored(use_cases: Services, job: Job) -> Job:
    use_cases.repository.jobs.insert([job])
    return job


def dead(**fields: Any) -> Job:
    failed = Attempt(3, "e1", NOW, NOW, Outcome.FAILED, "why")
    return a_job(
        status=Status.DLQ,
        attempts=3,
        finished_at=NOW,
        last_error="why",
        history=(failed,),
        **fields,
    )


def test_a_discarded_dead_letter_keeps_how_it_failed_and_can_be_redriven(
    use_cases: Services,
) -> None:
    job = stored(use_cases, dead())

    discarded = use_cases.discard(job.id, by=ALICE)

    assert isinstance(discarded, Job)
    assert discarded == replace(job, status=Status.CANCELLED, updated_at=discarded.updated_at)
    with pytest.raises(WrongState, match="is cancelled and cannot be discarded"):
        use_cases.discard(job.id)
    use_cases.redrive(job.id)
    assert use_cases.repository.jobs.get(job.id).status is Status.PENDING
    assert [(entry.action, entry.author) for entry in entries(use_cases)] == [
        (Action.JOB_DISCARD, ALICE),
        (Action.JOB_REDRIVE, API_CLIENT),
    ]


def test_any_pending_job_is_given_another_time(use_cases: Services) -> None:
    job = stored(use_cases, a_job())

    moved = use_cases.reschedule_job(
        job.id, LATER.astimezone(timezone(timedelta(hours=2))), by=ALICE
    )

    assert isinstance(moved, Job)
    assert moved.scheduled_at == LATER
    (entry,) = entries(use_cases)
    assert entry.before == {"scheduledAt": "2026-01-15T12:00:00Z"}
    assert entry.after == {"scheduledAt": "2999-01-01T12:00:00Z"}


@pytest.mark.parametrize("due_at", [LATER.replace(tzinfo=None), datetime(1969, 12, 31, tzinfo=UTC)])
def test_the_rules_for_times_are_those_of_the_api(use_cases: Services, due_at: datetime) -> None:
    job = stored(use_cases, a_job())

    for act in (
        lambda: use_cases.reschedule_job(job.id, due_at),
        lambda: use_cases.clone(job.id, due_at=due_at),
    ):
        with pytest.raises(InvalidJob, match="scheduledAt"):
            act()

    assert entries(use_cases) == []


def test_a_pending_job_is_made_due_now_and_an_overdue_one_keeps_its_place(
    use_cases: Services,
) -> None:
    future, overdue = stored(use_cases, a_job(scheduled_at=LATER)), stored(use_cases, a_job())

    moved = [use_cases.run_job_now(job.id, by=ALICE) for job in (future, overdue)]

    now = use_cases.repository.clock.now()
    assert all(isinstance(job, Job) and job.scheduled_at <= now for job in moved)
    assert use_cases.repository.jobs.get(overdue.id).scheduled_at == NOW
    assert [entry.action for entry in entries(use_cases)] == [Action.JOB_RUN_NOW] * 2
    assert entries(use_cases)[1].before == entries(use_cases)[1].after == {}


def test_a_priority_is_checked_and_changed(use_cases: Services) -> None:
    job = stored(use_cases, a_job(priority=2))

    with pytest.raises(InvalidJob, match="priority must be an integer of 32 bits"):
        use_cases.change_priority(job.id, 1 << 31)
    moved = use_cases.change_priority(job.id, 9, by=ALICE)

    assert isinstance(moved, Job)
    assert moved.priority == 9
    (entry,) = entries(use_cases)
    assert (entry.before, entry.after) == ({"priority": 2}, {"priority": 9})


ON_PENDING_JOBS: Final[dict[str, Callable[[Services, ObjectId], object]]] = {
    "reschedule": lambda use_cases, job_id: use_cases.reschedule_job(job_id, LATER),
    "run now": lambda use_cases, job_id: use_cases.run_job_now(job_id),
    "priority": lambda use_cases, job_id: use_cases.change_priority(job_id, 1),
}


@pytest.mark.parametrize("name", ON_PENDING_JOBS)
def test_what_is_for_pending_jobs_is_refused_to_others(use_cases: Services, name: str) -> None:
    act = ON_PENDING_JOBS[name]

    for status in set(Status) - {Status.PENDING, Status.PAUSED}:
        with pytest.raises(WrongState, match=f"is {status} and cannot be"):
            act(use_cases, stored(use_cases, a_job(status=status)).id)
    with pytest.raises(WrongState, match="is a template and cannot be"):
        act(use_cases, stored(use_cases, a_template()).id)
    with pytest.raises(JobNotFound):
        act(use_cases, ObjectId("0" * 24))

    assert entries(use_cases) == []


def test_a_clone_does_the_same_and_has_no_history(use_cases: Services) -> None:
    job = stored(
        use_cases,
        dead(
            payload='{"a":1}',
            delivery='{"url":"https://example.com","secret":"sealed"}',
            tags=("x",),
            retry={"strategy": "fixed"},
            priority=4,
            max_attempts=5,
            timeout_seconds=2.5,
            template_id=ObjectId(),
            occurrence_at=NOW,
        ),
    )

    clone, later = use_cases.clone(job.id, by=ALICE), use_cases.clone(job.id, due_at=LATER)

    assert clone == use_cases.repository.jobs.get(clone.id)
    assert clone.idempotency_key.startswith(f"{job.idempotency_key}-copy-")
    assert clone == replace(
        job,
        id=clone.id,
        idempotency_key=clone.idempotency_key,
        status=Status.PENDING,
        created_at=clone.created_at,
        updated_at=clone.created_at,
        scheduled_at=clone.created_at,
        attempts=0,
        finished_at=None,
        last_error=None,
        history=(),
        template_id=None,
        occurrence_at=None,
    )
    assert later.scheduled_at == LATER
    first, _ = entries(use_cases)
    assert (first.action, first.author) == (Action.JOB_CLONE, ALICE)
    assert first.targets == (str(job.id), str(clone.id))
    assert first.after["delivery"] == {"url": "https://example.com", "hasSecret": True}


def test_a_clones_key_is_no_longer_than_a_key_may_be(use_cases: Services) -> None:
    job = stored(use_cases, a_job(idempotency_key="k" * KEY_LENGTH))

    assert len(use_cases.clone(job.id).idempotency_key) == KEY_LENGTH


def test_a_template_is_not_cloned(use_cases: Services) -> None:
    template = stored(use_cases, a_template())

    with pytest.raises(WrongState, match="template"):
        use_cases.clone(template.id)


def test_what_clients_of_the_api_do_is_audited_without_a_name(
    api: Api, use_cases: Services
) -> None:
    job = stored(use_cases, dead())
    template = stored(use_cases, a_template())

    for path in (f"{job.id}/redrive", f"{job.id}/cancel", f"{template.id}/run"):
        assert api.post(f"/jobs/{path}").status_code < 300
    assert api.post(f"/jobs/{job.id}/cancel").status_code == 409

    found = entries(use_cases)
    assert {entry.author for entry in found} == {API_CLIENT}
    assert [entry.action for entry in found] == [
        Action.JOB_REDRIVE,
        Action.JOB_CANCEL,
        Action.TEMPLATE_RUN,
    ]


def test_what_cannot_be_read_can_be_cancelled_by_name(use_cases: Services) -> None:
    job = stored(use_cases, a_job())
    use_cases.repository.jobs._jobs.update_one({"_id": job.id}, {"$set": {"attempts": "three"}})

    assert isinstance(use_cases.cancel(job.id, by=ALICE), BrokenJob)

    assert [entry.author for entry in entries(use_cases)] == [ALICE]


def test_each_version_of_a_definition_is_in_the_audit_log(use_cases: Services) -> None:
    services = use_cases.definitions

    services.create(definition(), by=ALICE)
    services.put("t", "hook", definition(priority=3), by=ALICE)
    services.delete("t", "hook", by=ALICE)
    services.put("t", "hook", definition(), by=ALICE)

    created, changed, deleted, revived = entries(use_cases)
    assert [each.action for each in (created, changed, deleted, revived)] == [
        Action.DEFINITION_CREATE,
        Action.DEFINITION_CHANGE,
        Action.DEFINITION_DELETE,
        Action.DEFINITION_CREATE,
    ]
    assert {(each.author, each.tenant_id, each.targets) for each in entries(use_cases)} == {
        (ALICE, "t", ("hook",))
    }
    assert created.before == {}
    assert created.after["delivery"] == {"url": "https://example.com/hook"}
    assert (changed.before, changed.after) == (
        {"version": 1},
        {"version": 2, "priority": 3},
    )
    assert deleted.before["priority"] == 3
    assert deleted.after == {}
    assert revived.before == {}
    assert revived.after["version"] == 3


def test_refused_changes_of_definitions_leave_no_entry(use_cases: Services) -> None:
    services = use_cases.definitions
    services.create(definition())

    with pytest.raises(DefinitionExists):
        services.create(definition())
    with pytest.raises(VersionMismatch):
        services.put("t", "hook", definition(priority=1), version=7)
    with pytest.raises(VersionMismatch):
        services.delete("t", "hook", version=7)
    with pytest.raises(InvalidJob):
        services.put("t", "hook", definition(priority="high"))

    assert [entry.action for entry in entries(use_cases)] == [Action.DEFINITION_CREATE]


def test_eight_who_create_one_definition_leave_one_entry(use_cases: Services) -> None:
    def create_one(_: int) -> bool:
        try:
            use_cases.definitions.create(definition())
        except DefinitionExists:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(create_one, range(8))) == 1

    assert len(entries(use_cases)) == 1


def test_no_secret_is_in_the_audit_log(api: Api, use_cases: Services) -> None:
    create(api, delivery=SEALED)
    assert put(api, delivery={**SEALED, "secret": SIGNING_KEY.replace("M", "N")}).status_code == 200
    job = api.submit(definition="hook", tenantId="t", jobType=None)
    clone = use_cases.clone(ObjectId(job["id"]))
    use_cases.cancel(clone.id)
    definition_now = use_cases.definitions.get("t", "hook")
    assert api.call("DELETE", ONE).status_code < 300

    sealed = [
        text for text in _strings(json.loads(definition_now.delivery or "")) if len(text) > 80
    ]
    assert len(sealed) == 2
    everything = str(list(use_cases.repository.audit_log._entries.find()))
    assert len(entries(use_cases)) == 5
    for secret in (SIGNING_KEY, SIGNING_KEY.replace("M", "N"), BEARER, *sealed):
        assert secret not in everything


def test_a_new_secret_is_a_change_that_shows_no_value(api: Api, use_cases: Services) -> None:
    create(api, delivery=SEALED)
    put(api, delivery={**SEALED, "secret": SIGNING_KEY.replace("M", "N")})

    entry = entries(use_cases)[-1]
    assert entry.before["delivery"] == entry.after["delivery"]
    assert entry.after["delivery"]["hasSecret"] is True


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for member in value.values() for text in _strings(member)]
    return [value] if isinstance(value, str) else []
