"""The reaper's side: jobs whose message or executor disappeared."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, OperationFailure

from jobs.errors import UnreadableJob
from jobs.lifecycle import Finish, Job, Status
from jobs.repository.documents import from_document
from jobs.repository.endings import Retention, dead_letter_change, finish_change
from jobs.repository.indexes import IN_FLIGHT_INDEX
from jobs.repository.outages import is_outage, outages_named
from jobs.repository.refusals import put_aside, update_all

logger = logging.getLogger(__name__)


class RecoveryStore:
    """Takes back what nobody holds any more. A missing instant counts as long ago."""

    def __init__(self, collection: Collection[dict[str, Any]], retention: Retention) -> None:
        self._jobs = collection
        self._retention = retention

    @outages_named()
    def requeue_lost_messages(self, *, queued_before: datetime, now: datetime) -> int:
        """queued → pending for jobs whose message did not reach an executor in time.

        Returns:
            How many.
        """
        return self._back_to_pending(
            {"status": str(Status.QUEUED), "queuedAt": {"$not": {"$gte": queued_before}}}, now
        )

    @outages_named()
    def reclaim_unstarted(self, *, now: datetime) -> int:
        """claimed → pending where the lease ended before a handler started; costs no attempt.

        Returns:
            How many.
        """
        return self._back_to_pending(
            {"status": str(Status.CLAIMED), "leaseUntil": {"$not": {"$gte": now}}}, now
        )

    def _back_to_pending(self, guard: dict[str, Any], now: datetime) -> int:
        found = self._jobs.find(guard, {"_id": 1}, hint=IN_FLIGHT_INDEX)
        change = {
            "$set": {"status": str(Status.PENDING), "updatedAt": now},
            "$unset": dict.fromkeys(("claimId", "leaseUntil", "queuedAt", "startedAt"), ""),
        }
        ids = [document["_id"] for document in found]
        return update_all(self._jobs, ids, guard, change) if ids else 0

    @outages_named()
    def expired(self, *, now: datetime, limit: int) -> list[Job]:
        """Running jobs whose lease has ended, at most `limit`.

        A document that cannot be read is dead-lettered here.
        """
        query = {"status": str(Status.RUNNING), "leaseUntil": {"$not": {"$gte": now}}}
        jobs = []
        found = self._jobs.find(query, hint=IN_FLIGHT_INDEX, limit=limit, batch_size=limit)
        for document in found:
            try:
                jobs.append(from_document(document))
            except UnreadableJob as exc:
                logger.error("%s", exc, extra={"job_id": str(document["_id"])})
                # `$eq`, as what stands there by hand may look like a query.
                same = {key: {"$eq": document.get(key)} for key in ("_id", "status", "claimId")}
                self._jobs.update_one(same, dead_letter_change(str(exc), self._retention, now))
        return jobs

    @outages_named()
    def take_back(self, finishes: Sequence[Finish], *, now: datetime) -> int:
        """running → pending or dlq for jobs found by `expired`.

        Returns:
            How many; the others were extended or finished meanwhile.
        """
        if not finishes:
            return 0
        guards = [
            {
                # "": the job had none, which only happens by hand.
                "claimId": finish.claim_id or {"$in": ["", None]},
                "status": str(Status.RUNNING),
                "leaseUntil": {"$not": {"$gte": now}},
            }
            for finish in finishes
        ]
        statements = [
            UpdateOne({**guard, "_id": finish.job_id}, finish_change(finish, self._retention, now))
            for finish, guard in zip(finishes, guards, strict=True)
        ]
        try:
            return self._jobs.bulk_write(statements, ordered=False).matched_count
        except BulkWriteError as exc:
            if is_outage(exc):
                raise
            for error in exc.details["writeErrors"]:
                place = error["index"]
                reason = OperationFailure(error["errmsg"], error["code"])
                put_aside(self._jobs, finishes[place].job_id, guards[place], reason)
            return int(exc.details["nMatched"])
