"""Documents that MongoDB refuses to change, as after an edit by hand.

Two fields that share an index may not both be arrays, and no document may grow beyond 16 MiB. One
that refuses fails the whole write that it is part of, and must not stop the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from bson import ObjectId
from pymongo.collection import Collection
from pymongo.errors import WriteError

from jobs.lifecycle import Status
from jobs.logs import events
from jobs.repository.outages import is_outage

logger = logging.getLogger(__name__)

_SMALLER = {
    "$set": {"status": str(Status.DLQ)},
    "$unset": {"claimId": "", "leaseUntil": "", "queuedAt": ""},
    # Lists of dead letters go by it.
    "$currentDate": {"finishedAt": True},
}


def update_all(
    jobs: Collection[dict[str, Any]],
    job_ids: Iterable[ObjectId],
    guard: Mapping[str, Any],
    change: Mapping[str, Any],
) -> int:
    """Change many jobs in one write, and one by one when a document among them refuses.

    Args:
        jobs: the collection.
        job_ids: which.
        guard: what must hold for each; one that refuses is dead-lettered under the same guard.
        change: the update.

    Returns:
        How many were changed; too few where one refused.
    """
    ids = list(job_ids)
    try:
        return jobs.update_many({**guard, "_id": {"$in": ids}}, change).modified_count
    except WriteError as exc:
        if is_outage(exc):
            raise
    # Those changed before the refusal match the guard no more; the caller reads back what is its.
    return sum(_update_one(jobs, job_id, guard, change) for job_id in ids)


def _update_one(
    jobs: Collection[dict[str, Any]],
    job_id: ObjectId,
    guard: Mapping[str, Any],
    change: Mapping[str, Any],
) -> int:
    try:
        return jobs.update_one({**guard, "_id": job_id}, change).modified_count
    except WriteError as exc:
        if is_outage(exc):
            raise
        put_aside(jobs, job_id, guard, exc)
        return 0


def put_aside(
    jobs: Collection[dict[str, Any]], job_id: Any, guard: Mapping[str, Any], reason: Exception
) -> None:
    """Dead-letter a document that refuses its move, with a change that makes it smaller."""
    extra = events.JOB_IMMOVABLE(job_id=str(job_id), error=reason)
    logger.error(
        "job %s cannot be moved and becomes a dead letter: %s", job_id, reason, extra=extra
    )
    try:
        jobs.update_one({**guard, "_id": job_id}, _SMALLER)
    except WriteError as exc:
        if is_outage(exc):
            raise
        extra = events.JOB_STUCK(job_id=str(job_id), error=exc)
        logger.error(
            "job %s cannot be moved at all; repair or delete it: %s", job_id, exc, extra=extra
        )
