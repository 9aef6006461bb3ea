"""What the end of an attempt, or of a job, changes in its document; and what undoes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from jobs.error_groups import error_group
from jobs.lifecycle import ERROR_LENGTH, HISTORY_LENGTH, Finish, Status
from jobs.repository.documents import attempt_document

ERROR_GROUP: Final = "errorGroup"
"""Which dead letters died of the same error; only dead letters have it."""
Retention = Mapping[Status, timedelta | None]
"""How long a finished job is kept, by its last status; None: for ever."""

# What a job has only while it is queued, leased or over.
_TRACES: Final = dict.fromkeys(
    (
        "queuedAt",
        "claimId",
        "leaseUntil",
        "startedAt",
        "finishedAt",
        "expiresAt",
        "dlqPublishedAt",
        ERROR_GROUP,
        "result",
    ),
    "",
)


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
    if finish.status is Status.DLQ:
        change[ERROR_GROUP] = error_group(finish.last_error or "")
    if finish.result is not None:
        change["result"] = finish.result
    history = {"$each": [attempt_document(finish.attempt)], "$slice": -HISTORY_LENGTH}
    return {"$set": change, "$unset": unset, "$push": {"history": history}}


def dead_letter_change(reason: str, retention: Retention, now: datetime) -> dict[str, Any]:
    """The update that dead-letters a document without an attempt: it cannot be read or fired."""
    change: dict[str, Any] = {
        "status": str(Status.DLQ),
        "lastError": reason[:ERROR_LENGTH],
        ERROR_GROUP: error_group(reason),
        "finishedAt": now,
        "updatedAt": now,
    }
    if (keep := retention.get(Status.DLQ)) is not None:
        change["expiresAt"] = now + keep
    return {"$set": change, "$unset": {"claimId": "", "leaseUntil": ""}}


def redrive_change(*, due_at: datetime, now: datetime) -> dict[str, Any]:
    """The update that gives a dead letter or a cancelled job all its attempts again."""
    change = {
        "status": str(Status.PENDING),
        "scheduledAt": due_at,
        "attempts": 0,
        "updatedAt": now,
    }
    return {"$set": change, "$unset": _TRACES}


def discard_change(now: datetime) -> dict[str, Any]:
    """The update that has done with a dead letter. It expires when it would have anyway."""
    change = {"status": str(Status.CANCELLED), "updatedAt": now}
    return {"$set": change, "$unset": {ERROR_GROUP: ""}}
