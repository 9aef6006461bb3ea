"""Bounded looks through long lists: each finds what it can, and the next goes on from there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from bson import ObjectId
from pymongo import DESCENDING
from pymongo.collection import Collection

from jobs.lifecycle import Job
from jobs.repository.documents import BrokenJob, read_document

Place = tuple[datetime, ObjectId]
"""A place in a list: the instant and the id of the job before it."""

_OLDEST: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of a list."""

    jobs: list[Job | BrokenJob]
    next: Place | None
    """Where the next page begins; None: this is the last."""
    looked_back_to: datetime | None
    """The page stopped looking here, at its limit; None: it is full, or the list is at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look is about.

    `among` and the order are the index's business: whatever it leaves out costs nothing. `filters`
    are asked of each job that is looked at; where the index holds their fields too, no document is
    fetched for it.
    """

    index: str
    among: Mapping[str, Any]
    by: str
    """The field with the instant, newest first; documents that lack one are not in the list."""
    filters: Mapping[str, Any]
    most: int
    """Jobs that are looked at, at most: of the instant of the place, and of the older ones."""
    without: Mapping[str, Any]
    """Fields that are large and not shown: a projection."""
    since: datetime | None = None
    until: datetime | None = None
    """Before."""

    def page(
        self, collection: Collection[dict[str, Any]], *, limit: int, before: Place | None
    ) -> Listed:
        """The first jobs that are found, newest first.

        Args:
            collection: of jobs.
            limit: at most so many.
            before: where the page before ended; None: from the newest.
        """
        found: list[dict[str, Any]] = []
        for range_ in self._ranges(before):
            found += self._find(collection, range_, limit + 1 - len(found))
            if len(found) > limit:
                last = found[limit - 1]
                place = (last[self.by], last["_id"])
                return Listed(self._read(collection, found[:limit]), place, None)
            if (stop := self._stop(collection, range_)) is not None:
                return Listed(self._read(collection, found), stop, stop[0])
        return Listed(self._read(collection, found), None, None)

    def _ranges(self, before: Place | None) -> list[dict[str, Any]]:
        """What the index finds, one after the other: the first begins at the place itself."""
        bounds: dict[str, Any] = {"$gte": self.since or _OLDEST}
        if self.until is not None:
            bounds["$lt"] = self.until
        # A document with another id, as after an edit by hand, has no page and is no place.
        among = {**self.among, "_id": {"$type": "objectId"}}
        if before is None:
            return [{**among, self.by: bounds}]
        at, job_id = before
        # Apart, so that the look gets on however many jobs share one instant. As one condition
        # MongoDB would sort what it finds, where it is about several tenants.
        return [
            {**among, self.by: {**bounds, "$eq": at}, "_id": {"$lt": job_id}},
            {**among, self.by: {**bounds, "$lt": min(at, bounds.get("$lt", at))}},
        ]

    def _find(
        self, collection: Collection[dict[str, Any]], range_: Mapping[str, Any], count: int
    ) -> list[dict[str, Any]]:
        found = collection.aggregate(
            [
                *self._looked_at(range_),
                {"$match": self.filters},
                {"$limit": count},
                {"$project": {self.by: True}},
            ],
            hint=self.index,
            # With one to spare the server sees the end, and is not asked for more.
            batchSize=count + 1,
        )
        return list(found)

    def _stop(
        self, collection: Collection[dict[str, Any]], range_: Mapping[str, Any]
    ) -> Place | None:
        """Where the look ended at its limit; None: it came to the end of the range."""
        pipeline = [
            *self._looked_at(range_),
            {"$skip": self.most - 1},
            {"$project": {self.by: True}},
        ]
        for last in collection.aggregate(pipeline, hint=self.index):
            return last[self.by], last["_id"]
        return None

    def _looked_at(self, range_: Mapping[str, Any]) -> list[dict[str, Any]]:
        order = {self.by: DESCENDING, "_id": DESCENDING}
        if "$eq" in range_[self.by]:
            # To be asked for both would be a sort in memory, where it is about several tenants.
            del order[self.by]
        return [{"$match": range_}, {"$sort": order}, {"$limit": self.most}]

    def _read(
        self, collection: Collection[dict[str, Any]], found: list[dict[str, Any]]
    ) -> list[Job | BrokenJob]:
        if not found:
            return []
        query = {"_id": {"$in": [each["_id"] for each in found]}}
        documents = collection.find(query, self.without, batch_size=len(found) + 1)
        by_id = {document["_id"]: document for document in documents}
        # One that was deleted meanwhile is left out.
        return [read_document(by_id[each["_id"]]) for each in found if each["_id"] in by_id]


def holding(text: str) -> dict[str, str]:
    """What finds a text somewhere in a field, in capitals or not."""
    # MongoDB refuses a pattern with a NUL in it.
    return {"$regex": re.escape(text.replace("\0", "")), "$options": "i"}
