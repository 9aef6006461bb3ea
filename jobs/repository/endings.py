"""What the end of an attempt, or of a job, changes in its document."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from jobs.lifecycle import ERROR_LENGTH, HISTORY_LENGTH, Finish, Status
from jobs.repository.documents import attempt_document

Retention = Mapping[Status, timedelta | None]
"""How long a finished job is kept, by its last status; None: for ever."""


def finish_change(finish: Finish, retention: Retention, now: datetime) -> dict[str, Any]:
    """The update that ends an attempt."""
    change: dict[str, Any] = {
        "status": str(finish.status),
        "attempts": finish.attempts,
        "updatedAt": now,
    }
    unset = {"claimId": "", "leaseUntil": ""}
    if finish.status is Status.PENDING:
        change["scheduledAt"] = finish.scheduled_at
        unset |= {"queuedAt": "", "startedAt": ""}
    else:
        change["finishedAt"] = finish.attempt.finished_at
    if (keep := retention.get(finish.status)) is not None:
        change["expiresAt"] = finish.attempt.finished_at + keep
    if finish.last_error is not None:
        change["lastError"] = finish.last_error
    if finish.result is not None:
        change["result"] = finish.result
    history = {"$each": [attempt_document(finish.attempt)], "$slice": -HISTORY_LENGTH}
    return {"$set": change, "$unset": unset, "$push": {"history": history}}


def dead_letter_change(reason: str, retention: Retention, now: datetime) -> dict[str, Any]:
    """The update that dead-letters a document without an attempt: it cannot be read or fired."""
    change: dict[str, Any] = {
        "status": str(Status.DLQ),
        "lastError": reason[:ERROR_LENGTH],
        "finishedAt": now,
        "updatedAt": now,
    }
    if (keep := retention.get(Status.DLQ)) is not None:
        change["expiresAt"] = now + keep
    return {"$set": change, "$unset": {"claimId": "", "leaseUntil": ""}}
