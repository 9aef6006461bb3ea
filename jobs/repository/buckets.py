"""The minutes that were announced to fan-out workers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from jobs.repository.outages import outages_named

# By hand also instants that no `datetime` can hold.
_MINUTES = {"$gte": datetime.min.replace(tzinfo=UTC), "$lte": datetime.max.replace(tzinfo=UTC)}
_OPEN = {"_id": _MINUTES, "triggeredAt": {"$exists": False}}
_MOST_OPEN = 100


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
