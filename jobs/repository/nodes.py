"""Which processes are alive, and how much the executors among them can take."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo import WriteConcern
from pymongo.collection import Collection

from jobs.repository.outages import outages_named

# What was put in by hand must not make the other processes unreadable.
_READABLE = {
    "$jsonSchema": {
        "required": ["jobTypes", "capacity", "startedAt"],
        "properties": {
            "_id": {"bsonType": "string"},
            "jobTypes": {"bsonType": "array", "items": {"bsonType": "string"}},
            "capacity": {"bsonType": ["int", "long"]},
            "startedAt": {"bsonType": "date"},
        },
    }
}


@dataclass(frozen=True, slots=True)
class Node:
    """A process that serves a role.

    `capacity` is what an executor can hold at once: running plus prefetch; 0 when draining.
    """

    name: str
    role: str
    started_at: datetime
    job_types: tuple[str, ...] = ()
    capacity: int = 0


class NodeStore:
    """The register of live processes."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        # The next report follows in two seconds.
        self._nodes = collection.with_options(write_concern=WriteConcern(1))

    @outages_named()
    def report(self, node: Node, *, now: datetime) -> None:
        """Say that a process is alive and what it can take."""
        self._nodes.replace_one(
            {"_id": node.name},
            {
                "_id": node.name,
                "role": node.role,
                "jobTypes": list(node.job_types),
                "capacity": node.capacity,
                "startedAt": node.started_at,
                "seenAt": now,
            },
            upsert=True,
        )

    @outages_named()
    def live(self, *, role: str, seen_since: datetime) -> list[Node]:
        """The processes of a role that reported since an instant."""
        query = {"role": role, "seenAt": {"$gte": seen_since}, **_READABLE}
        return [
            Node(
                document["_id"],
                document["role"],
                document["startedAt"],
                tuple(document["jobTypes"]),
                document["capacity"],
            )
            for document in self._nodes.find(query)
        ]

    @outages_named()
    def remove(self, name: str) -> None:
        """Forget a process that leaves."""
        self._nodes.delete_one({"_id": name})
