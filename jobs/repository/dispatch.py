"""The scheduler's side: which jobs are due, pending → queued, and the wake-up."""

from __future__ import annotations

from collections.abc import Collection as AnyCollection
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bson import ObjectId
from pymongo import WriteConcern
from pymongo.collection import Collection

from jobs.lifecycle import IN_FLIGHT, SHARDS, Status
from jobs.repository.documents import KIND, RUNNABLE, TEMPLATE
from jobs.repository.indexes import DISPATCH, IN_FLIGHT_INDEX
from jobs.repository.outages import outages_named
from jobs.repository.refusals import update_all

_PENDING = {"status": str(Status.PENDING), KIND: RUNNABLE}
_DISPATCH_ORDER = [("priority", -1), ("scheduledAt", 1)]
_LOOK_AHEAD = 1000
_LONG_AGO = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class DueJob:
    """What dispatching needs to know of a job."""

    id: ObjectId
    job_type: str
    priority: int
    ready_at: datetime
    """As `Job.ready_at`."""
    request_id: str | None = None
    """As `Job.request_id`."""


@dataclass(frozen=True, slots=True)
class Wake:
    """A job or template became pending.

    `job_type` is None for a template, and where the change does not say it; `due_at` is long ago
    where it did not change.
    """

    job_type: str | None
    due_at: datetime


@dataclass(frozen=True, slots=True)
class InFlight:
    """How many jobs of a type are in one place: with an executor, or (None) on the way to one."""

    job_type: str
    executor: str | None
    count: int


class DispatchStore:
    """Claims of due jobs in batches, never one round trip per job."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        # Not waiting for the majority: a move to queued that a failover undoes leaves a pending job
        # and a message that nobody can claim by. The executor's claim is the one that must last.
        self._jobs = collection.with_options(write_concern=WriteConcern(1))

    @outages_named()
    def due(
        self, job_type: str, *, now: datetime, limit: int, shards: AnyCollection[int] | None = None
    ) -> list[DueJob]:
        """Due jobs of one type: highest priority first, then the longest due.

        One range of one index: per distinct priority one key more is examined than returned.

        Args:
            job_type: the type.
            now: aware UTC.
            limit: jobs, at most.
            shards: only these. Where one key is looked at too much for each time that it has to
                skip jobs of others, nothing of them is fetched. None: all.
        """
        found = self._jobs.find(
            self._due_query(job_type, {"$lte": now}, shards),
            {"priority": 1, "scheduledAt": 1, "createdAt": 1, "requestId": 1},
            hint=DISPATCH,
            batch_size=limit,
        )
        return [
            _due_job(document, job_type, now)
            for document in found.sort(_DISPATCH_ORDER).limit(limit)
        ]

    @outages_named()
    def next_due(
        self,
        job_type: str,
        *,
        after: datetime,
        until: datetime,
        shards: AnyCollection[int] | None = None,
    ) -> datetime | None:
        """When the next job of a type comes due, if that is within the window; else None.

        Args:
            job_type: the type.
            after: exclusive, aware UTC.
            until: inclusive; close to `after`, as all jobs due in between are looked at (the first
                1,000 in dispatch order).
            shards: as in `due`.
        """
        found = self._jobs.find(
            self._due_query(job_type, {"$gt": after, "$lte": until}, shards),
            {"_id": 0, "scheduledAt": 1},
            hint=DISPATCH,
            batch_size=_LOOK_AHEAD,
        )
        instants = (document["scheduledAt"] for document in found.limit(_LOOK_AHEAD))
        # An array of dates would also be found.
        return min((at for at in instants if isinstance(at, datetime)), default=None)

    @outages_named()
    def count_due(self, job_type: str, *, since: datetime, until: datetime, limit: int) -> int:
        """How many pending jobs of a type are due in a span, counted up to a limit.

        Args:
            job_type: the type.
            since: inclusive, aware UTC.
            until: exclusive.
            limit: so that the cost is bounded.
        """
        return self._jobs.count_documents(
            self._due_query(job_type, {"$gte": since, "$lt": until}), hint=DISPATCH, limit=limit
        )

    @staticmethod
    def _due_query(
        job_type: str, scheduled_at: dict[str, datetime], shards: AnyCollection[int] | None = None
    ) -> dict[str, Any]:
        query: dict[str, Any] = {
            **_PENDING,
            "jobType": job_type,
            "scheduledAt": scheduled_at,
            "_id": {"$type": "objectId"},
        }
        if shards is not None and len(shards) < SHARDS:
            query["shard"] = {"$in": sorted(shards)}
        return query

    @outages_named()
    def queue(self, job_ids: Sequence[ObjectId], *, claim_id: str, now: datetime) -> set[ObjectId]:
        """pending → queued for all of them, in one write.

        Args:
            job_ids: candidates from `due`; those that are no longer pending are skipped.
            claim_id: fresh; marks what this call moved.
            now: aware UTC.

        Returns:
            The ids that this call moved, and so this caller alone may publish.
        """
        moved = update_all(
            self._jobs,
            job_ids,
            _PENDING,
            {
                "$set": {
                    "status": str(Status.QUEUED),
                    "queuedAt": now,
                    "claimId": claim_id,
                    "updatedAt": now,
                }
            },
        )
        if moved == len(job_ids):
            return set(job_ids)
        found = self._jobs.find({"_id": {"$in": list(job_ids)}, "claimId": claim_id}, {"_id": 1})
        return {document["_id"] for document in found}

    @outages_named()
    def traceparents(self, job_ids: Sequence[ObjectId]) -> dict[ObjectId, str]:
        """The `traceparent` of those of these jobs that have one."""
        query = {"_id": {"$in": list(job_ids)}, "traceparent": {"$type": "string"}}
        found = self._jobs.find(query, {"traceparent": 1}, batch_size=len(job_ids))
        return {document["_id"]: document["traceparent"] for document in found}

    @outages_named()
    def release(self, job_ids: Sequence[ObjectId], *, claim_id: str, now: datetime) -> int:
        """queued → pending for jobs that could not be published.

        Returns:
            How many went back; the others were claimed by an executor, so their message arrived.
        """
        return self._jobs.update_many(
            {"_id": {"$in": list(job_ids)}, "status": str(Status.QUEUED), "claimId": claim_id},
            {
                "$set": {"status": str(Status.PENDING), "updatedAt": now},
                "$unset": {"queuedAt": "", "claimId": ""},
            },
        ).modified_count

    @outages_named()
    def in_flight(self) -> list[InFlight]:
        """How many jobs of each type are queued, and how many each executor holds."""
        is_queued = {"$eq": ["$status", str(Status.QUEUED)]}
        groups = self._jobs.aggregate(
            [
                {"$match": {"status": {"$in": [str(status) for status in IN_FLIGHT]}}},
                {
                    "$group": {
                        # A queued job may still name the executor of its last attempt.
                        "_id": {
                            "type": "$jobType",
                            "by": {"$cond": [is_queued, None, "$claimedBy"]},
                        },
                        "count": {"$sum": 1},
                    }
                },
            ],
            hint=IN_FLIGHT_INDEX,
        )
        counts = [
            InFlight(group["_id"].get("type"), group["_id"].get("by"), group["count"])
            for group in groups
        ]
        # By hand these may be anything, also what cannot be looked up in a table.
        return [
            each
            for each in counts
            if type(each.job_type) is str and type(each.executor) in (str, type(None))
        ]

    @contextmanager
    def watch(
        self, *, wait_ms: int, shards: AnyCollection[int] | None = None
    ) -> Iterator[Iterator[Wake | None]]:
        """The jobs and templates that become pending from now on, and the ends of pauses.

        Args:
            wait_ms: how long one look waits before it yields None.
            shards: only jobs of these; with none, only templates. None: everything.

        Raises:
            StoreUnavailable: the stream broke; open another.
        """
        pipeline: list[dict[str, Any]] = [
            {"$match": _becomes_pending(shards)},
            {
                "$project": {
                    "fullDocument.jobType": 1,
                    f"fullDocument.{KIND}": 1,
                    "fullDocument.scheduledAt": 1,
                    "updateDescription.updatedFields.scheduledAt": 1,
                    "updateDescription.updatedFields.pausedUntil": 1,
                }
            },
        ]
        with (
            outages_named(),
            self._jobs.watch(pipeline, max_await_time_ms=wait_ms) as stream,
        ):
            yield self._wakes(stream)

    @staticmethod
    def _wakes(stream: Any) -> Iterator[Wake | None]:
        while stream.alive:
            change = stream.try_next()
            if change is None:
                yield None
            else:
                written = (
                    change["fullDocument"]
                    if "fullDocument" in change
                    else change["updateDescription"]["updatedFields"]
                )
                due_at = written.get("scheduledAt", written.get("pausedUntil"))
                job_type = written.get("jobType")
                is_job = written.get(KIND) == RUNNABLE and isinstance(job_type, str)
                yield Wake(
                    job_type if is_job else None,
                    due_at if isinstance(due_at, datetime) else _LONG_AGO,
                )


def _becomes_pending(shards: AnyCollection[int] | None) -> dict[str, Any]:
    """What a change stream lets through; see `DispatchStore.watch`."""
    insert: dict[str, Any] = {
        "operationType": "insert",
        "fullDocument.status": str(Status.PENDING),
    }
    update: dict[str, Any] = {
        "operationType": "update",
        "updateDescription.updatedFields.status": str(Status.PENDING),
    }
    pause = {
        "operationType": "update",
        "updateDescription.updatedFields.pausedUntil": {"$exists": True},
    }
    match: dict[str, Any] = {"$or": [insert, update, pause]}
    if shards is not None and not shards:
        insert[f"fullDocument.{KIND}"] = TEMPLATE
        # An update does not tell the kind; but only jobs are ever claimed.
        update["updateDescription.removedFields"] = {"$ne": "claimId"}
    elif shards is not None and len(shards) < SHARDS:
        # The last byte of the id, which is all that an update tells of the job. An id that was put
        # in by hand may be anything.
        as_text = {"$convert": {"input": "$documentKey._id", "to": "string", "onError": ""}}
        last_byte = {"$substrCP": [as_text, 22, 2]}
        match["$expr"] = {"$in": [last_byte, [f"{shard:02x}" for shard in sorted(shards)]]}
    return match


def _due_job(document: Mapping[str, Any], job_type: str, now: datetime) -> DueJob:
    # What is wrong by hand is found by whoever claims the job; here it must not block the others.
    priority, request_id = document.get("priority"), document.get("requestId")
    instants = (document["scheduledAt"], document.get("createdAt"))
    return DueJob(
        document["_id"],
        job_type,
        priority if isinstance(priority, int) else 0,
        min(now, max((at for at in instants if isinstance(at, datetime)), default=now)),
        request_id if isinstance(request_id, str) else None,
    )
