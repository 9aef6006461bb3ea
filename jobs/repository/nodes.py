"""Which processes are alive, what they do, and how much the executors among them can take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo import DESCENDING, WriteConcern
from pymongo.collection import Collection

from chronos_site import VERSION
from jobs.repository.outages import outages_named

# What was put in by hand must not make the other processes unreadable.
_READABLE = {
    "$jsonSchema": {
        "required": ["role", "jobTypes", "capacity", "startedAt"],
        "properties": {
            "_id": {"bsonType": "string"},
            "role": {"bsonType": "string"},
            "jobTypes": {"bsonType": "array", "items": {"bsonType": "string"}},
            "capacity": {"bsonType": ["int", "long"]},
            "startedAt": {"bsonType": "date"},
        },
    }
}


_SHOWN_NUMBERS: Final = ("slots", "busy", "term", "shards")
_MOST: Final = 500
DELIVERING: Final = "-delivery"
"""What an executor that also runs handlers appends to its name where it makes deliveries."""


@dataclass(frozen=True, slots=True)
class Node:
    """A process that serves a role.

    `capacity` is what an executor can hold at once: running plus prefetch; 0 when draining. The
    fields after it are for people to see; None where they do not apply.
    """

    name: str
    role: str
    started_at: datetime
    job_types: tuple[str, ...] = ()
    capacity: int = 0
    slots: int | None = None
    """Executor: jobs that it runs at once, at most."""
    busy: int | None = None
    """Executor: jobs that it runs."""
    is_draining: bool = False
    """Executor: it takes no more, and ends soon."""
    term: int | None = None
    """Scheduler: the number of the term in which it leads; None: it stands by."""
    shards: int | None = None
    """Fan-out worker: how many it owns."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A process, and when it reported last."""

    node: Node
    at: datetime
    version: str | None
    """Of Chronos, as it says itself; None: it is from before it did."""


def processes(nodes: Iterable[Node]) -> list[Node]:
    """One of each process: an executor of handlers and deliveries stands twice in the register."""
    by_name = {(node.role, node.name): node for node in nodes}
    return [
        node
        for (role, name), node in by_name.items()
        if not (name.endswith(DELIVERING) and (role, name.removesuffix(DELIVERING)) in by_name)
    ]


class NodeStore:
    """The register of live processes."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        # The next report follows in two seconds.
        self._nodes = collection.with_options(write_concern=WriteConcern(1))

    @outages_named()
    def report(self, node: Node, *, now: datetime) -> None:
        """Say that a process is alive and what it can take."""
        document = {
            "_id": node.name,
            "role": node.role,
            "jobTypes": list(node.job_types),
            "capacity": node.capacity,
            "draining": node.is_draining,
            "startedAt": node.started_at,
            "seenAt": now,
            "version": VERSION,
        }
        for name in _SHOWN_NUMBERS:
            if (value := getattr(node, name)) is not None:
                document[name] = value
        self._nodes.replace_one({"_id": node.name}, document, upsert=True)

    @outages_named()
    def live(self, *, role: str, seen_since: datetime) -> list[Node]:
        """The processes of a role that reported since an instant."""
        query = {"role": role, "seenAt": {"$gte": seen_since}, **_READABLE}
        return [_node(document) for document in self._nodes.find(query)]

    @outages_named()
    def seen(self, *, since: datetime, limit: int = _MOST) -> list[Seen]:
        """The processes of all roles that reported since an instant, the latest first.

        Those that left in good order are not among them; one that was killed is forgotten after a
        day.
        """
        query = {"seenAt": {"$gte": since}, **_READABLE}
        found = self._nodes.find(query, limit=limit).sort("seenAt", DESCENDING)
        return [
            Seen(_node(document), document["seenAt"], _version(document))
            for document in found
            # An array of dates would also be found.
            if isinstance(document["seenAt"], datetime)
        ]

    @outages_named()
    def remove(self, name: str) -> None:
        """Forget a process that leaves."""
        self._nodes.delete_one({"_id": name})


def _version(document: Mapping[str, Any]) -> str | None:
    version = document.get("version")
    return version if isinstance(version, str) else None


def _node(document: Mapping[str, Any]) -> Node:
    shown = {name: value for name in _SHOWN_NUMBERS if isinstance(value := document.get(name), int)}
    return Node(
        document["_id"],
        document["role"],
        document["startedAt"],
        tuple(document["jobTypes"]),
        document["capacity"],
        is_draining=document.get("draining") is True,
        **shown,
    )
