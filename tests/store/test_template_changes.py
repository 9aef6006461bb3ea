"""What people do to templates, and how pauses end, with the entries that tell of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest
from pymongo.collection import Collection

from jobs.audit import Action, Author, Via
from jobs.definitions import Definition
from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from jobs.repository.documents import BrokenJob
from jobs.spawn import spawn
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

MINUTE: Final = timedelta(minutes=1)
OLGA: Final = Author("olga", Via.ADMIN)
HOOK: Final = Definition(
    tenant_id="tenant-a", name="hook", version=1, job_type="noop", created_at=NOW, updated_at=NOW
)


def entries(repo: Repository) -> list[tuple[str, Action, dict[str, object], dict[str, object]]]:
    found, _ = repo.audit_log.page(None, limit=100)
    return [
        (each.author.name, each.action, {**each.before}, {**each.after})
        for each in found
        if each.action.startswith("template.")
    ]


@pytest.mark.parametrize("definition", [None, "hook"])
def test_a_created_template_is_in_the_audit_log(repo: Repository, definition: str | None) -> None:
    repo.definitions.create(HOOK)
    template = a_template(definition=definition)

    created = [repo.template_changes.create(template, by=OLGA) for _ in range(2)]

    assert created == [True, False]
    assert repo.jobs.get(template.id) == template
    [(author, action, before, after)] = entries(repo)
    assert (author, action, before) == ("olga", Action.TEMPLATE_CREATE, {})
    assert after["cron"] == template.cron


def test_no_template_is_created_with_a_definition_that_is_gone(repo: Repository) -> None:
    assert repo.template_changes.create(a_template(definition="hook"), by=OLGA) is None
    assert entries(repo) == []


def test_an_edit_sets_and_removes_fields_and_tells_only_of_those(repo: Repository) -> None:
    old = a_template(timezone="Europe/Berlin", tags=("a",), missed=4)
    repo.jobs.insert([old])
    new = replace(old, timezone=None, tags=("b",), timeout_seconds=3.5, scheduled_at=NOW + MINUTE)

    changed = repo.template_changes.edit(old, new, now=NOW + MINUTE, by=OLGA)

    assert changed == replace(new, updated_at=NOW + MINUTE)
    assert entries(repo) == [
        (
            "olga",
            Action.TEMPLATE_EDIT,
            {"timezone": "Europe/Berlin", "tags": ["a"]},
            {"tags": ["b"], "timeoutSeconds": 3.5},
        )
    ]


@pytest.mark.parametrize(
    "meanwhile",
    [{"updated_at": NOW + MINUTE}, {"scheduled_at": NOW}, {"status": Status.PAUSED}],
    ids=str,
)
def test_an_edit_of_what_has_changed_since_it_was_read_is_refused(
    repo: Repository, meanwhile: dict[str, object]
) -> None:
    old = a_template()
    stored = replace(old, **meanwhile)  # type: ignore[arg-type]
    repo.jobs.insert([stored])

    changed = repo.template_changes.edit(old, replace(old, priority=9), now=NOW, by=OLGA)

    assert changed is None
    assert repo.jobs.get(old.id) == stored
    assert entries(repo) == []


def test_a_backfill_stores_what_is_not_there_and_says_how_much(repo: Repository) -> None:
    template = a_template()
    runs = [spawn(template, NOW - each * MINUTE, NOW, NOW - each * MINUTE) for each in range(3)]
    there = replace(runs[1], status=Status.COMPLETED)
    repo.jobs.insert([template, there])

    stored = [
        repo.template_changes.backfill(template, runs, details={"from": "x"}, now=NOW, by=OLGA)
        for _ in range(2)
    ]

    assert stored == [2, 0]
    assert repo.jobs.get(there.id) == there
    assert repo.template_lists.existing([run.id for run in runs]) == {run.id for run in runs}
    assert entries(repo) == [("olga", Action.TEMPLATE_BACKFILL, {}, {"from": "x", "runs": 2})]


def test_a_run_that_is_spawned_during_a_backfill_is_left_alone(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = a_template()
    runs = [spawn(template, NOW - each * MINUTE, NOW, NOW - each * MINUTE) for each in range(3)]
    insert_many = Collection.insert_many

    def late(collection: Documents, documents: list[dict[str, Any]], **options: Any) -> object:
        if len(documents) == len(runs):
            repo.jobs.insert([replace(runs[0], status=Status.RUNNING)])
        return insert_many(collection, documents, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Collection, "insert_many", late)
        stored = repo.template_changes.backfill(template, runs, details={}, now=NOW, by=OLGA)

    assert stored == 2
    assert repo.jobs.get(runs[0].id).status is Status.RUNNING


def test_pauses_end_in_the_order_of_their_ends(repo: Repository) -> None:
    assert repo.template_changes.next_end() is None
    later, sooner, endless = [
        a_template(status=Status.PAUSED, paused_at=NOW, paused_until=until)
        for until in (NOW, NOW - MINUTE, None)
    ]
    far = a_template(status=Status.PAUSED, paused_until=NOW + MINUTE)
    repo.jobs.insert([later, far, sooner, endless, a_job()])

    assert repo.template_changes.next_end() == sooner.paused_until
    assert repo.template_changes.ended_pauses(now=NOW, limit=10) == [sooner, later]
    assert repo.template_changes.ended_pauses(now=NOW, limit=1) == [sooner]


def test_the_end_of_a_pause_is_told_of_and_leaves_nothing_of_it(repo: Repository) -> None:
    template = a_template()
    repo.jobs.insert([template])
    repo.interventions.pause(template.id, now=NOW, reason="a move", until=NOW + MINUTE, by=OLGA)

    ended = [
        repo.template_changes.end_pause(
            template.id, until=until, next_at=NOW + 2 * MINUTE, now=NOW + MINUTE, by=OLGA
        )
        for until in (NOW, NOW + MINUTE, NOW + MINUTE)
    ]

    assert ended == [False, True, False]
    assert repo.jobs.get(template.id) == replace(
        template, scheduled_at=NOW + 2 * MINUTE, updated_at=NOW + MINUTE
    )
    (_, action, before, after), (_, _, _, paused) = entries(repo)
    assert action is Action.TEMPLATE_RESUME
    assert before["pausedReason"] == paused["pausedReason"] == "a move"
    assert after["status"] == "pending"


@pytest.mark.parametrize("act", ["resume", "cancel"])
def test_who_resumes_or_cancels_ends_the_pause(repo: Repository, act: str) -> None:
    template = a_template()
    repo.jobs.insert([template])
    repo.interventions.pause(template.id, now=NOW, reason="a move", until=NOW + MINUTE, by=OLGA)

    if act == "resume":
        moved = repo.interventions.resume(template.id, next_at=NOW, now=NOW)
    else:
        moved = repo.interventions.cancel(template.id, now=NOW)

    assert isinstance(moved, Job)
    assert moved.paused_reason is moved.paused_until is moved.paused_by is moved.paused_at is None
    assert repo.template_changes.next_end() is None


def test_pauses_that_were_edited_by_hand_stop_nobody(
    repo: Repository, documents: Documents
) -> None:
    broken, good = [a_template(status=Status.PAUSED, paused_until=NOW) for _ in range(2)]
    odd = a_template(status=Status.PAUSED)
    repo.jobs.insert([broken, good, odd])
    documents.update_one({"_id": broken.id}, {"$set": {"missed": None}})
    documents.update_one({"_id": odd.id}, {"$set": {"pausedUntil": "tomorrow"}})

    found = repo.template_changes.ended_pauses(now=NOW, limit=10)

    assert {each.id for each in found} == {broken.id, good.id}
    assert [each.id for each in found if isinstance(each, BrokenJob)] == [broken.id]
    assert repo.template_changes.next_end() == NOW
