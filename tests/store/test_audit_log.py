"""The audit log: what is appended is listed, and nothing changes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from pymongo import MongoClient

from chronos_site.config import StoreConfig
from jobs.audit import Action, Author, Entry, Via
from jobs.repository import Repository
from jobs.repository.audit_log import AuditLog
from tests.store.plans import Explainer, Recorder

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ALICE = Author("alice", Via.ADMIN)


def entry(minute: int, tenant: str = "a", **fields: Any) -> Entry:
    values: dict[str, Any] = {
        "at": NOW + timedelta(minutes=minute),
        "author": ALICE,
        "action": Action.JOB_CANCEL,
        "tenant_id": tenant,
        "targets": ("0" * 24,),
    }
    return Entry(**values | fields)


def test_entries_read_back_as_they_were_appended(repo: Repository) -> None:
    written = entry(0, before={"payload": {"a.b": {"$c": [1, None]}}}, after={"priority": 3})

    repo.audit_log.append([written])

    assert repo.audit_log.page(None, limit=10) == ([written], None)


def test_pages_go_from_the_newest_to_the_oldest_without_a_gap(repo: Repository) -> None:
    entries = [entry(minute) for minute in range(5)]
    repo.audit_log.append(entries)

    first, place = repo.audit_log.page(None, limit=3)
    rest, end = repo.audit_log.page(None, limit=3, before=place)

    assert first + rest == entries[::-1]
    assert end is None


def test_lists_hold_only_the_tenants_that_are_asked_for(repo: Repository) -> None:
    entries = [entry(0, "a"), entry(1, "b"), entry(2, "c"), entry(3, "")]
    repo.audit_log.append(entries)

    assert repo.audit_log.page(["a", "c"], limit=10)[0] == [entries[2], entries[0]]
    assert repo.audit_log.page([], limit=10) == ([], None)
    assert repo.audit_log.page(None, limit=10)[0] == entries[::-1]


def test_entries_are_found_by_target_action_and_author(repo: Repository) -> None:
    bob = Author("bob", Via.API)
    entries = [
        entry(0, targets=("x", "y")),
        entry(1, author=bob),
        entry(2, action=Action.BULK_START, operation_id="op"),
    ]
    repo.audit_log.append(entries)

    assert repo.audit_log.page(None, limit=10, target="y")[0] == entries[:1]
    assert repo.audit_log.page(None, limit=10, author="bob")[0] == entries[1:2]
    assert repo.audit_log.page(["a"], limit=10, action=Action.BULK_START)[0] == entries[2:]
    assert repo.audit_log.page(None, limit=10, operation_id="op")[0] == entries[2:]


def test_an_entry_edited_by_hand_does_not_hide_the_others(repo: Repository) -> None:
    repo.audit_log.append([entry(0), entry(1)])
    repo.audit_log._entries.update_one({"at": NOW}, {"$set": {"action": 7}})

    assert [each.at for each in repo.audit_log.page(None, limit=10)[0]] == [entry(1).at]


def test_there_is_no_verb_that_changes_an_entry() -> None:
    verbs = {name for name in vars(AuditLog) if not name.startswith("_")}

    assert verbs == {"append", "page"}


FILTERS: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "nothing": ({}, "newest"),
    "target": ({"target": "x", "author": "bob"}, "target"),
    "author": ({"author": "bob", "action": Action.BULK_END}, "author"),
    "action": ({"action": Action.BULK_END}, "action"),
}


@pytest.mark.parametrize("tenants", [None, ["a", "b"]])
@pytest.mark.parametrize("name", FILTERS)
def test_what_is_rare_is_found_without_reading_the_others(
    store_config: StoreConfig, tenants: list[str] | None, name: str
) -> None:
    filters, index = FILTERS[name]
    recorder = Recorder()
    client: MongoClient[dict[str, Any]] = MongoClient(
        store_config.uri, tz_aware=True, event_listeners=[recorder]
    )
    with client:
        repo = Repository(client, store_config)
        repo.ensure_indexes()
        repo.audit_log.append([entry(minute, "ab"[minute % 2]) for minute in range(500)])
        explainer = Explainer(client, recorder, store_config.database)

        (plan,) = explainer.plans(lambda: repo.audit_log.page(tenants, limit=10, **filters))

    of_tenants = {"newest": "tenant_list", "target": "target"}.get(index, f"tenant_{index}")
    assert plan.indexes == {index if tenants is None else of_tenants}
    assert not plan.stages & {"SORT", "COLLSCAN"}
    assert plan.documents <= 11
    assert plan.keys <= 2 * 11 + 1
