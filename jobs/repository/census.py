"""How many jobs there are, where that can be counted by an index."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING
from pymongo.collection import Collection

from jobs.lifecycle import IN_FLIGHT, Status
from jobs.repository.documents import KIND, RUNNABLE
from jobs.repository.indexes import DISPATCH, IN_FLIGHT_INDEX, UNANNOUNCED
from jobs.repository.outages import outages_named
from jobs.repository.overview import READY_AT, Backlog

_PENDING: Final = {"status": str(Status.PENDING), KIND: RUNNABLE}
_PRIORITIES: Final = 100


class Census:
    """Counts for gauges and pages. Finished jobs are not counted: that would read them all."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._jobs = collection

    @outages_named()
    def by_status(self, *, limit: int) -> dict[Status, int]:
        """Pending jobs (without templates), those in flight, and dead letters.

        Args:
            limit: each is counted up to here, so that the cost is bounded.
        """
        queries: dict[Status, tuple[dict[str, Any], str]] = {
            Status.PENDING: ({KIND: RUNNABLE}, DISPATCH),
            Status.DLQ: ({}, UNANNOUNCED),
            **{status: ({}, IN_FLIGHT_INDEX) for status in IN_FLIGHT},
        }
        return {
            status: self._jobs.count_documents(
                {"status": str(status), **query}, hint=hint, limit=limit
            )
            for status, (query, hint) in queries.items()
        }

    @outages_named()
    def types_with_pending(self, *, limit: int) -> list[str]:
        """The types of pending jobs, due or not, in order: a seek for each.

        Args:
            limit: types, at most.
        """
        found: list[str] = []
        last = ""
        for _ in range(limit):
            # In the order of the index. To be asked for, it would be a sort in memory as soon as
            # an edit by hand has made a list of some type.
            next_one = self._jobs.find_one(
                {**_PENDING, "jobType": {"$gt": last}}, {"jobType": True}, hint=DISPATCH
            )
            if next_one is None:
                break
            job_type = next_one["jobType"]
            if isinstance(job_type, list):
                # Found by each of its members.
                last = min(each for each in job_type if isinstance(each, str) and each > last)
            else:
                last = job_type
                found.append(job_type)
        return found

    @outages_named()
    def backlog(self, job_type: str, *, now: datetime, limit: int) -> Backlog | None:
        """What is due of one type and not yet queued; None: nothing.

        Args:
            job_type: the type.
            now: due by then.
            limit: jobs that are counted, at most. Those of the highest priority come first; of what
                is left, the first is still looked at in the next hundred priorities, by a seek
                each: who starves has a low one.
        """
        due = {**_PENDING, "jobType": job_type, "scheduledAt": {"$lte": now}}
        counted = next(
            self._jobs.aggregate(
                [
                    {"$match": due},
                    {"$limit": limit},
                    {
                        "$group": {
                            "_id": None,
                            "count": {"$sum": 1},
                            "oldest": {"$min": READY_AT},
                            "lowest": {"$min": "$priority"},
                        }
                    },
                ],
                hint=DISPATCH,
            ),
            None,
        )
        if counted is None:
            return None
        is_complete = counted["count"] < limit
        instants = [counted["oldest"]]
        priority = counted["lowest"]
        is_number = isinstance(priority, int)
        for _ in range(_PRIORITIES if is_number and not is_complete else 0):
            first = self._jobs.find_one(
                {**due, "priority": {"$lt": priority}},
                {"priority": True, "readyAt": READY_AT},
                sort=[("priority", DESCENDING), ("scheduledAt", ASCENDING)],
                hint=DISPATCH,
            )
            if first is None or not isinstance(first["priority"], int):
                break
            priority = first["priority"]
            instants.append(first["readyAt"])
        # What was edited by hand may hold none.
        oldest = min((at for at in instants if isinstance(at, datetime)), default=now)
        return Backlog(counted["count"], oldest, is_complete)
