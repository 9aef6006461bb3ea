"""What is due, counted within bounds for the overview."""

from __future__ import annotations

import math
from collections.abc import Collection as AnyCollection
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING
from pymongo.collection import Collection

from jobs.lifecycle import Status
from jobs.repository.documents import KIND, RUNNABLE
from jobs.repository.indexes import DEAD_LETTERS_OF_TENANT, DISPATCH, IN_FLIGHT_INDEX
from jobs.repository.outages import outages_named

COUNTED: Final = 3_000
"""Jobs that are looked at, at most."""
_EACH: Final = 100
_RANGES: Final = 100
DEAD_COUNTED: Final = 1_000
"""What is shown of a tenant's dead letters, at most; counting stops one later."""
TENANTS: Final = 50
"""Tenants whose dead letters are counted, at most."""
READY_AT: Final = {"$max": ["$scheduledAt", "$createdAt"]}
"""`Job.ready_at` as an expression."""
_PENDING: Final = {"status": str(Status.PENDING), KIND: RUNNABLE}


@dataclass(frozen=True, slots=True)
class Backlog:
    """Jobs of one type that are due and not yet queued."""

    count: int
    oldest: datetime
    """Since when the longest waiting of those that were looked at could run (`Job.ready_at`)."""
    is_complete: bool
    """False: there are more, or may be."""


class OverviewStore:
    """Counts, each by an index and up to a bound."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._jobs = collection

    @outages_named()
    def backlogs(
        self, *, now: datetime, tenants: AnyCollection[str] | None
    ) -> tuple[dict[str, Backlog], bool]:
        """What is due, by job type.

        The index of dispatch is walked from one type and priority to the next; of each pair the
        oldest 100 are looked at, and 3,000 in all, so that a large backlog hides no other.

        Args:
            now: due by then.
            tenants: only of these; None: of all.

        Returns:
            The backlogs, and whether all that is due was looked at.
        """
        backlogs: dict[str, Backlog] = {}
        is_complete, left = True, COUNTED
        place = self._first({"jobType": {"$type": "string"}, "priority": {"$lt": math.inf}})
        for _ in range(_RANGES):
            # An edit by hand may have made a list of it.
            if place is None or left <= 0 or not isinstance(place["jobType"], str):
                break
            job_type, priority = place["jobType"], place["priority"]
            limit = min(left, _EACH)
            looked_at, found = self._due(job_type, priority, now, tenants, limit)
            left -= looked_at
            is_complete = is_complete and looked_at < limit
            if found is not None:
                before = backlogs.get(job_type)
                backlogs[job_type] = found if before is None else _sum(before, found)
            place = self._first({"jobType": job_type, "priority": {"$lt": priority}}) or (
                self._first({"jobType": {"$gt": job_type}, "priority": {"$lt": math.inf}})
            )
        return backlogs, is_complete and place is None

    @outages_named()
    def queued(
        self, *, besides: AnyCollection[str] = (), tenants: AnyCollection[str] | None
    ) -> tuple[dict[str, int], bool]:
        """Queued jobs by type, of 3,000 that are looked at.

        Args:
            besides: types that are left out, at no cost.
            tenants: only of these; None: of all.

        Returns:
            The counts, and whether all that is queued was looked at.
        """
        query: dict[str, Any] = {
            "status": str(Status.QUEUED),
            "jobType": {"$type": "string", "$nin": sorted(besides)},
        }
        if tenants is not None:
            query["tenantId"] = {"$in": sorted(tenants)}
        found = self._jobs.aggregate(
            [
                {"$match": query},
                {"$limit": COUNTED},
                {"$group": {"_id": "$jobType", "count": {"$sum": 1}}},
            ],
            hint=IN_FLIGHT_INDEX,
        )
        counts = {each["_id"]: each["count"] for each in found}
        # An edit by hand may have made a list of it.
        named = {name: count for name, count in counts.items() if isinstance(name, str)}
        return named, sum(counts.values()) < COUNTED

    @outages_named()
    def dead_by_tenant(self, tenants: AnyCollection[str] | None) -> tuple[dict[str, int], bool]:
        """Dead letters, by tenant, of the first 50 tenants by name: each counted up to 1,001.

        Args:
            tenants: only of these; None: of all that have dead letters.

        Returns:
            The counts, and whether there are no more tenants.
        """
        names = list(self._with_dead()) if tenants is None else sorted(tenants)
        counts = {
            name: self._jobs.count_documents(
                {"tenantId": name, "status": str(Status.DLQ)},
                hint=DEAD_LETTERS_OF_TENANT,
                limit=DEAD_COUNTED + 1,
            )
            for name in names[:TENANTS]
        }
        return {name: count for name, count in counts.items() if count}, len(names) <= TENANTS

    def _with_dead(self) -> Iterator[str]:
        """The tenants that have dead letters, by a seek each, and one more than are counted."""
        last = ""
        for _ in range(TENANTS + 1):
            found = self._jobs.find_one(
                {"status": str(Status.DLQ), "tenantId": {"$gt": last}},
                {"tenantId": True},
                sort=[("tenantId", ASCENDING)],
                hint=DEAD_LETTERS_OF_TENANT,
            )
            if found is None or not isinstance(found["tenantId"], str):
                return
            last = found["tenantId"]
            yield last

    def _first(self, after: dict[str, Any]) -> dict[str, Any] | None:
        return self._jobs.find_one(
            {**_PENDING, **after},
            {"jobType": True, "priority": True},
            sort=[("jobType", ASCENDING), ("priority", DESCENDING)],
            hint=DISPATCH,
        )

    def _due(
        self,
        job_type: str,
        priority: int,
        now: datetime,
        tenants: AnyCollection[str] | None,
        limit: int,
    ) -> tuple[int, Backlog | None]:
        """How many were looked at, and what was found among them."""
        mine: Any = True if tenants is None else {"$in": ["$tenantId", sorted(tenants)]}
        group = next(
            self._jobs.aggregate(
                [
                    {
                        "$match": {
                            **_PENDING,
                            "jobType": job_type,
                            "priority": priority,
                            "scheduledAt": {"$lte": now},
                        }
                    },
                    {"$sort": {"scheduledAt": ASCENDING}},
                    {"$limit": limit},
                    {
                        "$group": {
                            "_id": None,
                            "lookedAt": {"$sum": 1},
                            "count": {"$sum": {"$cond": [mine, 1, 0]}},
                            "oldest": {"$min": {"$cond": [mine, READY_AT, None]}},
                        }
                    },
                ],
                hint=DISPATCH,
            ),
            None,
        )
        if group is None:
            return 0, None
        oldest = group["oldest"]
        if not group["count"] or not isinstance(oldest, datetime):
            return group["lookedAt"], None
        return group["lookedAt"], Backlog(group["count"], oldest, group["lookedAt"] < limit)


def _sum(one: Backlog, other: Backlog) -> Backlog:
    return Backlog(
        one.count + other.count,
        min(one.oldest, other.oldest),
        one.is_complete and other.is_complete,
    )
