"""The minutes that were announced to fan-out workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from jobs.repository.outages import outages_named

# By hand also instants that no `datetime` can hold.
_MINUTES = {"$gte": datetime.min.replace(tzinfo=UTC), "$lte": datetime.max.replace(tzinfo=UTC)}
_OPEN = {"_id": _MINUTES, "triggeredAt": {"$exists": False}}
_MOST_OPEN = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bucket:
    """A minute's bucket; None where that is unknown, or did not happen yet."""

    minute: datetime
    due: int | None
    """Jobs that were due in it, or before it in minutes without a bucket."""
    opened_at: datetime | None
    opened_by: str | None
    term: int | None
    triggered_at: datetime | None
    triggered_by: str | None
    partitions: int | None
    unreadable: tuple[str, ...] = ()
    """Fields that somebody edited by hand into something else."""

    @property
    def is_open(self) -> bool:
        """Whether its triggers are not out."""
        return self.triggered_at is None


class BucketStore:
    """One document for each minute in which jobs are due. It is *open* until its triggers are out.

    Jobs do not name their bucket: it follows from `scheduledAt`.
    """

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._buckets = collection

    @outages_named()
    def newest(self, *, until: datetime) -> datetime | None:
        """The latest minute that has a bucket, up to and including `until`."""
        found = self._buckets.find_one(
            {"_id": {**_MINUTES, "$lte": until}}, {"_id": 1}, sort=[("_id", -1)]
        )
        minute = None if found is None else found["_id"]
        return minute if isinstance(minute, datetime) else None

    @outages_named()
    def recent(self, *, limit: int) -> list[Bucket]:
        """The latest minutes that have a bucket, the newest first."""
        found = self._buckets.find({"_id": _MINUTES}).sort("_id", -1).limit(limit)
        # An array of instants would also be found.
        return [_bucket(each) for each in found if isinstance(each["_id"], datetime)]

    @outages_named()
    def insert(self, minute: datetime, *, due: int, by: str, term: int, now: datetime) -> bool:
        """Open a minute's bucket.

        Args:
            minute: its beginning, aware UTC.
            due: how many jobs are due in it, or were in earlier minutes that have none.
            by: the leader, unique per process.
            term: the leader's, larger than that of every earlier leader.
            now: aware UTC.

        Returns:
            False: it exists.
        """
        document = {"_id": minute, "due": due, "openedAt": now, "openedBy": by, "term": term}
        try:
            self._buckets.insert_one(document)
        except DuplicateKeyError:
            return False
        return True

    @outages_named()
    def take_over(self, *, by: str, term: int) -> list[datetime]:
        """The open buckets that are this leader's to trigger, the oldest first, 100 at the most.

        Its own, and those that a leader of an earlier term left behind.
        """
        mine = {**_OPEN, "$or": [{"openedBy": by}, {"term": {"$lt": term}}]}
        minutes = [
            each["_id"]
            for each in self._buckets.find(mine, {"_id": 1}).sort("_id").limit(_MOST_OPEN)
        ]
        self._buckets.update_many(
            {**mine, "_id": {"$in": minutes}}, {"$set": {"openedBy": by, "term": term}}
        )
        return minutes

    @outages_named()
    def close(self, minute: datetime, *, partitions: int, by: str, now: datetime) -> None:
        """Note that a bucket's triggers are out.

        Args:
            minute: whose.
            partitions: into so many ranges the shards were divided, each with a trigger.
            by: the leader that sent them.
            now: aware UTC.
        """
        self._buckets.update_one(
            {"_id": minute, "triggeredAt": {"$exists": False}},
            {"$set": {"partitions": partitions, "triggeredAt": now, "triggeredBy": by}},
        )


def _bucket(document: Mapping[str, Any]) -> Bucket:
    unreadable: list[str] = []

    def value(name: str, kind: type[T]) -> T | None:
        found = document.get(name)
        if isinstance(found, kind) and not isinstance(found, bool):
            return found
        if name in document:
            unreadable.append(name)
        return None

    bucket = Bucket(
        document["_id"],
        value("due", int),
        value("openedAt", datetime),
        value("openedBy", str),
        value("term", int),
        value("triggeredAt", datetime),
        value("triggeredBy", str),
        value("partitions", int),
    )
    return replace(bucket, unreadable=tuple(unreadable))
