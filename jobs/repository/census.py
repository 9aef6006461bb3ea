"""How many jobs there are of each status that can be counted by an index."""

from __future__ import annotations

from typing import Any

from pymongo.collection import Collection

from jobs.lifecycle import IN_FLIGHT, Status
from jobs.repository.documents import KIND, RUNNABLE
from jobs.repository.indexes import DISPATCH, IN_FLIGHT_INDEX, UNANNOUNCED
from jobs.repository.outages import outages_named


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
