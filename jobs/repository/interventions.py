"""The moves that people make: each returns the moved job, or None when its status forbids it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from bson import ObjectId
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from jobs.audit import API_CLIENT, Action, Author
from jobs.executions import cancelled_execution
from jobs.lifecycle import LIVE, Job, Status
from jobs.repository.audit_log import AuditLog
from jobs.repository.audited import AuditedWrites, Deed, Document
from jobs.repository.documents import (
    KIND,
    RUNNABLE,
    TEMPLATE,
    BrokenJob,
    read_document,
    to_document,
)
from jobs.repository.endings import discard_change, redrive_change
from jobs.repository.executions import ExecutionStore

NO_PAUSE: Final = dict.fromkeys(("pausedReason", "pausedUntil", "pausedBy", "pausedAt"), "")
"""What a template has only while it is paused."""


class InterventionStore:
    """Cancel, redrive, discard, reschedule, change priority, pause, resume, add.

    Each takes `by`, who does it, for the audit log.
    """

    def __init__(
        self, collection: Collection[Document], executions: ExecutionStore, log: AuditLog
    ) -> None:
        self._jobs = AuditedWrites(collection, log)
        self._executions = executions

    def cancel(
        self, job_id: ObjectId, *, now: datetime, by: Author = API_CLIENT
    ) -> Job | BrokenJob | None:
        """Stop a job for good. A running handler learns of it by its lease.

        The attempt that it is making is recorded as cancelled.
        """

        def record(before: Document, session: ClientSession) -> None:
            job = read_document(before)
            if isinstance(job, Job) and job.status is Status.RUNNING:
                self._executions.replace([cancelled_execution(job, now)], session)

        return self._move(
            Deed(by=by, action=Action.JOB_CANCEL, targets=(str(job_id),), at=now),
            {"_id": job_id},
            (*LIVE, Status.PAUSED),
            {
                "$set": {"status": str(Status.CANCELLED), "finishedAt": now, "updatedAt": now},
                "$unset": {"claimId": "", "leaseUntil": "", **NO_PAUSE},
            },
            also=record,
        )

    def redrive(
        self, job_id: ObjectId, *, due_at: datetime, now: datetime, by: Author = API_CLIENT
    ) -> Job | BrokenJob | None:
        """Give a dead letter or a cancelled job all its attempts again.

        Args:
            job_id: which job or template.
            due_at: when it is to run; for a template its next occurrence.
            now: aware UTC.
            by: who does it.
        """
        return self._move(
            Deed(by=by, action=Action.JOB_REDRIVE, targets=(str(job_id),), at=now),
            {"_id": job_id},
            (Status.DLQ, Status.CANCELLED),
            redrive_change(due_at=due_at, now=now),
        )

    def discard(
        self, job_id: ObjectId, *, now: datetime, by: Author = API_CLIENT
    ) -> Job | BrokenJob | None:
        """Have done with a dead letter. It keeps what tells how it failed, and when it expires."""
        return self._move(
            Deed(by=by, action=Action.JOB_DISCARD, targets=(str(job_id),), at=now),
            {"_id": job_id},
            (Status.DLQ,),
            discard_change(now),
        )

    def reschedule(
        self,
        job_id: ObjectId,
        *,
        due_at: datetime,
        now: datetime,
        seen: datetime | None = None,
        by: Author = API_CLIENT,
    ) -> Job | BrokenJob | None:
        """Give a pending job another time.

        Args:
            job_id: which.
            due_at: that time.
            now: aware UTC.
            seen: the one that it must still have; None: whichever.
            by: who does it.
        """
        return self._move(
            Deed(by=by, action=Action.JOB_RESCHEDULE, targets=(str(job_id),), at=now),
            {"_id": job_id, KIND: RUNNABLE, **_still("scheduledAt", seen)},
            (Status.PENDING,),
            {"$set": {"scheduledAt": due_at, "updatedAt": now}},
        )

    def hasten(
        self, job_id: ObjectId, *, now: datetime, by: Author = API_CLIENT
    ) -> Job | BrokenJob | None:
        """Make a pending job due now; one that is due already keeps its place."""
        return self._move(
            Deed(by=by, action=Action.JOB_RUN_NOW, targets=(str(job_id),), at=now),
            {"_id": job_id, KIND: RUNNABLE},
            (Status.PENDING,),
            {"$min": {"scheduledAt": now}, "$set": {"updatedAt": now}},
        )

    def change_priority(
        self,
        job_id: ObjectId,
        priority: int,
        *,
        now: datetime,
        seen: int | None = None,
        by: Author = API_CLIENT,
    ) -> Job | BrokenJob | None:
        """Let a pending job go before others, or after them.

        Args:
            job_id: which.
            priority: its new one.
            now: aware UTC.
            seen: the one that it must still have; None: whichever.
            by: who does it.
        """
        return self._move(
            Deed(by=by, action=Action.JOB_PRIORITY, targets=(str(job_id),), at=now),
            {"_id": job_id, KIND: RUNNABLE, **_still("priority", seen)},
            (Status.PENDING,),
            {"$set": {"priority": priority, "updatedAt": now}},
        )

    def pause(
        self,
        job_id: ObjectId,
        *,
        now: datetime,
        reason: str | None = None,
        until: datetime | None = None,
        by: Author = API_CLIENT,
    ) -> Job | BrokenJob | None:
        """Stop a template from spawning runs.

        Args:
            job_id: which.
            now: aware UTC.
            reason: for people.
            until: when the scheduler resumes it; None: never.
            by: who does it.
        """
        pause = {
            "status": str(Status.PAUSED),
            "pausedReason": reason,
            "pausedUntil": until,
            "pausedBy": by.name,
            "pausedAt": now,
            "updatedAt": now,
        }
        return self._move(
            Deed(by=by, action=Action.TEMPLATE_PAUSE, targets=(str(job_id),), at=now),
            {"_id": job_id, KIND: TEMPLATE},
            (Status.PENDING,),
            {"$set": {name: value for name, value in pause.items() if value is not None}},
        )

    def resume(
        self, job_id: ObjectId, *, next_at: datetime, now: datetime, by: Author = API_CLIENT
    ) -> Job | BrokenJob | None:
        """Let a paused template go on with the occurrence `next_at`."""
        return self._move(
            Deed(by=by, action=Action.TEMPLATE_RESUME, targets=(str(job_id),), at=now),
            {"_id": job_id, KIND: TEMPLATE},
            (Status.PAUSED,),
            {
                "$set": {"status": str(Status.PENDING), "scheduledAt": next_at, "updatedAt": now},
                "$unset": NO_PAUSE,
            },
        )

    def add(
        self, job: Job, *, made_from: ObjectId, action: Action, by: Author = API_CLIENT
    ) -> bool:
        """Store a job that somebody had made from another one.

        Args:
            job: the new one.
            made_from: the template, or what was copied. The entry is found by both.
            action: how it was made.
            by: who had it made.

        Returns:
            False when its key was used already.
        """
        deed = Deed(by=by, action=action, targets=(str(made_from), str(job.id)), at=job.created_at)
        return self._jobs.insert(deed, to_document(job))

    def _move(
        self,
        deed: Deed,
        which: Mapping[str, Any],
        allowed: Sequence[Status],
        update: Mapping[str, Any],
        also: Callable[[Document, ClientSession], None] | None = None,
    ) -> Job | BrokenJob | None:
        guard = {**which, "status": {"$in": [str(status) for status in allowed]}}
        document = self._jobs.change(deed, guard, update, also=also)
        return None if document is None else read_document(document)


def _still(name: str, seen: object) -> dict[str, Any]:
    return {} if seen is None else {name: seen}
