"""What the audit log says of a bulk operation, and to whom."""

from __future__ import annotations

from bson import ObjectId

from jobs.audit import Action, Author, Via
from jobs.bulk import Filter, Kind, Operation
from tests.builders import NOW

OLGA = Author("olga", Via.ADMIN)
SAID = {"kind": "redrive", "total": 7}


def told(*tenants: str) -> dict[str, object]:
    """What is said, by tenant."""
    operation = Operation(
        id=ObjectId(),
        kind=Kind.REDRIVE,
        filter=Filter(),
        tenants=tenants,
        author=OLGA,
        started_at=NOW,
    )
    entries = operation.entries(Action.BULK_START, NOW, OLGA, SAID)
    return {entry.tenant_id: entry.after for entry in entries}


def test_one_tenant_is_told_how_many_there_are() -> None:
    assert told("a") == {"a": SAID}


def test_several_tenants_are_not_told_how_many_the_others_have() -> None:
    assert told("a", "b") == {"a": {"kind": "redrive"}, "b": {"kind": "redrive"}}
