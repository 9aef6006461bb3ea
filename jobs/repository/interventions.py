"""The moves that people make: each returns the moved job, or None when its status forbids it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from jobs.executions import cancelled_execution
from jobs.lifecycle import LIVE, Job, Status
from jobs.repository.documents import KIND, RUNNABLE, TEMPLATE, BrokenJob, read_document
from jobs.repository.executions import ExecutionStore
from jobs.repository.outages import outages_named
from jobs.repository.transactions import in_transaction

# What a job has only while it is queued, leased or over.
_TRACES = dict.fromkeys(
    (
        "queuedAt",
        "claimId",
        "leaseUntil",
        "startedAt",
        "finishedAt",
        "expiresAt",
        "dlqPublishedAt",
        "result",
    ),
    "",
)


class InterventionStore:
    """Cancel, redrive, pause, resume."""

    def __init__(self, collection: Collection[dict[str, Any]], executions: ExecutionStore) -> None:
        self._jobs = collection
        self._executions = executions

    @outages_named()
    def cancel(self, job_id: ObjectId, *, now: datetime) -> Job | BrokenJob | None:
        """Stop a job for good. A running handler learns of it by its lease.

        The attempt that it is making is recorded as cancelled.
        """
        return in_transaction(self._jobs, partial(self._cancel, job_id, now))

    def _cancel(
        self, job_id: ObjectId, now: datetime, session: ClientSession
    ) -> Job | BrokenJob | None:
        running = self._jobs.find_one(
            {"_id": job_id, "status": str(Status.RUNNING)}, session=session
        )
        moved = self._change(
            {"_id": job_id},
            (*LIVE, Status.PAUSED),
            {"$set": {"status": str(Status.CANCELLED), "finishedAt": now, "updatedAt": now}},
            {"claimId": "", "leaseUntil": ""},
            session,
        )
        job = None if running is None else read_document(running)
        if isinstance(job, Job):
            self._executions.replace([cancelled_execution(job, now)], session)
        return moved

    def redrive(
        self, job_id: ObjectId, *, due_at: datetime, now: datetime
    ) -> Job | BrokenJob | None:
        """Give a dead letter or a cancelled job all its attempts again.

        Args:
            job_id: which job or template.
            due_at: when it is to run; for a template its next occurrence.
            now: aware UTC.
        """
        return self._move(
            {"_id": job_id},
            (Status.DLQ, Status.CANCELLED),
            {
                "$set": {
                    "status": str(Status.PENDING),
                    "scheduledAt": due_at,
                    "attempts": 0,
                    "updatedAt": now,
                }
            },
            _TRACES,
        )

    def reschedule(
        self, job_id: ObjectId, *, due_at: datetime, now: datetime
    ) -> Job | BrokenJob | None:
        """Give a pending job another time."""
        return self._move(
            {"_id": job_id, KIND: RUNNABLE},
            (Status.PENDING,),
            {"$set": {"scheduledAt": due_at, "updatedAt": now}},
        )

    def pause(self, job_id: ObjectId, *, now: datetime) -> Job | BrokenJob | None:
        """Stop a template from spawning runs."""
        return self._move(
            {"_id": job_id, KIND: TEMPLATE},
            (Status.PENDING,),
            {"$set": {"status": str(Status.PAUSED), "updatedAt": now}},
        )

    def resume(
        self, job_id: ObjectId, *, next_at: datetime, now: datetime
    ) -> Job | BrokenJob | None:
        """Let a paused template go on with the occurrence `next_at`."""
        return self._move(
            {"_id": job_id, KIND: TEMPLATE},
            (Status.PAUSED,),
            {"$set": {"status": str(Status.PENDING), "scheduledAt": next_at, "updatedAt": now}},
        )

    @outages_named()
    def _move(
        self,
        which: Mapping[str, Any],
        allowed: Sequence[Status],
        change: Mapping[str, Any],
        unset: Mapping[str, str] | None = None,
    ) -> Job | BrokenJob | None:
        return self._change(which, allowed, change, unset)

    def _change(
        self,
        which: Mapping[str, Any],
        allowed: Sequence[Status],
        change: Mapping[str, Any],
        unset: Mapping[str, str] | None,
        session: ClientSession | None = None,
    ) -> Job | BrokenJob | None:
        document = self._jobs.find_one_and_update(
            {**which, "status": {"$in": [str(status) for status in allowed]}},
            {**change, **({"$unset": unset} if unset else {})},
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        return None if document is None else read_document(document)
