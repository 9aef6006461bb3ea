"""The reaper's side: jobs whose message or executor disappeared."""

from __future__ import annotations

import logging
from collections.abc import Sequence, Set
from datetime import datetime
from functools import partial
from typing import Any

from pymongo import UpdateOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, OperationFailure

from jobs.attempts import tell_end
from jobs.errors import UnreadableJob
from jobs.executions import execution_of
from jobs.lifecycle import Finish, Job, Status
from jobs.logs import events
from jobs.repository.documents import from_document, read_document
from jobs.repository.endings import Retention, dead_letter_change, finish_change
from jobs.repository.executions import ExecutionStore
from jobs.repository.indexes import IN_FLIGHT_INDEX
from jobs.repository.outages import is_outage, outages_named
from jobs.repository.refusals import put_aside, update_all
from jobs.repository.transactions import in_transaction

logger = logging.getLogger(__name__)


class RecoveryStore:
    """Takes back what nobody holds any more. A missing instant counts as long ago."""

    def __init__(
        self,
        collection: Collection[dict[str, Any]],
        retention: Retention,
        executions: ExecutionStore,
    ) -> None:
        self._jobs = collection
        self._retention = retention
        self._executions = executions

    @outages_named()
    def requeue_lost_messages(
        self, *, queued_before: datetime, now: datetime, shards: Set[int] | None = None
    ) -> int:
        """queued → pending for jobs whose message did not reach an executor in time.

        Args:
            queued_before: aware UTC.
            now: aware UTC.
            shards: only jobs of these; None: of all.

        Returns:
            How many.
        """
        lost: dict[str, Any] = {
            "status": str(Status.QUEUED),
            "queuedAt": {"$not": {"$gte": queued_before}},
        }
        if shards is not None:
            lost["shard"] = {"$in": sorted(shards)}
        return self._back_to_pending(lost, now)

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
                extra = events.JOB_UNREADABLE(job_id=str(document["_id"]), error=exc)
                logger.error("%s", exc, extra=extra)
                # `$eq`, as what stands there by hand may look like a query.
                same = {key: {"$eq": document.get(key)} for key in ("_id", "status", "claimId")}
                self._jobs.update_one(same, dead_letter_change(str(exc), self._retention, now))
        return jobs

    @outages_named()
    def take_back(self, finishes: Sequence[Finish], *, now: datetime) -> int:
        """running → pending or dlq for jobs found by `expired`, and the record of it.

        Returns:
            How many; the others were extended or finished meanwhile.
        """
        while finishes:
            try:
                taken = in_transaction(self._jobs, partial(self._take_back, finishes, now))
            except BulkWriteError as exc:
                if is_outage(exc):
                    raise
                # The first that refuses undoes the transaction.
                [error] = exc.details["writeErrors"]
                guard: dict[str, Any] = error["op"]["q"]
                reason = OperationFailure(error["errmsg"], error["code"])
                put_aside(self._jobs, guard["_id"], guard, reason)
                finishes = [finish for finish in finishes if finish.job_id != guard["_id"]]
            else:
                for job, finish in taken:
                    tell_end(job, finish)
                return len(taken)
        return 0

    def _take_back(
        self, finishes: Sequence[Finish], now: datetime, session: ClientSession
    ) -> list[tuple[Job, Finish]]:
        expired = {"status": str(Status.RUNNING), "leaseUntil": {"$not": {"$gte": now}}}
        found = self._jobs.find(
            {"_id": {"$in": [finish.job_id for finish in finishes]}, **expired},
            {"payload": False},
            session=session,
            batch_size=len(finishes),
        )
        jobs = {job.id: job for job in map(read_document, found) if isinstance(job, Job)}
        taken, statements = [], []
        for finish in finishes:
            job = jobs.get(finish.job_id)
            # "": the job had none, which only happens by hand.
            if job is not None and (job.claim_id or "") == finish.claim_id:
                guard = {"_id": job.id, "claimId": job.claim_id, **expired}
                change = finish_change(finish, self._retention, now)
                statements.append(UpdateOne(guard, change))
                taken.append((job, finish))
        if statements:
            self._jobs.bulk_write(statements, ordered=False, session=session)
            self._executions.replace([execution_of(*each) for each in taken], session)
        return taken
