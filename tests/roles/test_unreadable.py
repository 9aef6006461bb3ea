"""Documents that somebody edited by hand stop no role: theirs is the only harm."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import ObjectId
from bson.datetime_ms import DatetimeMS
from pymongo.collection import Collection

from executor.executor import Executor
from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from reaper.reaper import Reaper
from scheduler.scheduler import Scheduler

Insert = Callable[..., list[Job]]

YEAR_300000 = DatetimeMS(9_400_000_000_000_000)
YEAR_MINUS_1 = DatetimeMS(-62_200_000_000_000)
LONG_AGO = datetime(1970, 1, 2, tzinfo=UTC)

PENDING: list[dict[str, Any]] = [
    {"$set": {"priority": "high"}},
    {"$unset": {"priority": ""}},
    {"$set": {"priority": {"$numberLong": "7"}}},
    {"$set": {"priority": float("nan")}},
    {"$set": {"payload": {"an": "object"}}},
    {"$set": {"payload": b"bytes"}},
    {"$set": {"attempts": 2**63 - 1}},
    {"$set": {"attempts": None}},
    {"$set": {"maxAttempts": "three"}},
    {"$set": {"timeoutSeconds": float("nan")}},
    {"$set": {"timeoutSeconds": -1}},
    {"$set": {"timeoutSeconds": "soon"}},
    {"$set": {"history": "none"}},
    {"$set": {"history": [1]}},
    {"$set": {"retry": "often"}},
    {"$set": {"retry": {"base": []}}},
    {"$set": {"createdAt": YEAR_300000}},
    {"$set": {"createdAt": "yesterday"}},
    {"$set": {"scheduledAt": YEAR_MINUS_1}},
    {"$set": {"scheduledAt": "now"}},
    {"$set": {"tenantId": 7}},
    {"$set": {"tenantId": "x" * 2_000_000}},
    {"$set": {"tags": {"a": "b"}}},
    {"$set": {"jobType": ["a", "list"]}},
    {"$set": {"jobType": {"a": "document"}}},
    {"$set": {"kind": "neither"}},
    {"$set": {"status": "PENDING"}},
    {"$set": {"cron": "* * * * *"}},
]
IN_FLIGHT: list[dict[str, Any]] = [
    {"status": "running"},
    {"status": "running", "leaseUntil": LONG_AGO},
    {"status": "running", "leaseUntil": "never", "claimId": "a", "claimedBy": "gone"},
    {"status": "running", "leaseUntil": LONG_AGO, "claimId": 7},
    {"status": "running", "leaseUntil": LONG_AGO, "claimId": "a", "attempts": 2**63 - 1},
    {"status": "running", "leaseUntil": LONG_AGO, "claimId": "a", "history": 5},
    {"status": "running", "claimedBy": {"a": "document"}},
    {"status": "running", "jobType": {"a": "document"}},
    {"status": "claimed"},
    {"status": "claimed", "claimedBy": ["a", "list"], "leaseUntil": YEAR_300000},
    {"status": "queued"},
    {"status": "queued", "queuedAt": "then", "jobType": ["a", "list"]},
]


def test_no_edit_by_hand_stops_a_role(
    start_scheduler: Callable[..., Scheduler],
    start_executor: Callable[..., Executor],
    start_reaper: Callable[..., Reaper],
    repo: Repository,
    documents: Collection[dict[str, Any]],
    job_type: str,
    insert: Insert,
    wait_until_all: Callable[..., list[Job]],
) -> None:
    # At the head of every queue, so that nobody gets past them unharmed.
    first = repo.clock.now() - timedelta(days=1)
    broken = insert(len(PENDING) + len(IN_FLIGHT), priority=9, scheduled_at=first)
    for job, change in zip(
        broken, [*PENDING, *({"$set": each} for each in IN_FLIGHT)], strict=True
    ):
        documents.update_one({"_id": job.id}, change)
    due = {"status": "pending", "scheduledAt": first, "priority": 9}
    documents.insert_many(
        [
            {"_id": ObjectId(), "status": "pending"},
            {"_id": ObjectId(), "status": "running"},
            {"_id": "no id", "kind": "job", "jobType": job_type} | due,
            {"_id": 7, "kind": "job", "jobType": job_type} | due,
            {"_id": ObjectId(), "kind": "template"} | due,
            {
                "_id": ObjectId(),
                "status": "pending",
                "kind": "template",
                "scheduledAt": YEAR_MINUS_1,
            },
        ]
    )
    start_executor(lambda context: None, concurrency=2)
    start_scheduler()
    start_reaper(queued_timeout=timedelta(seconds=0.5), claim_timeout=timedelta(seconds=0.5))

    wait_until_all(insert(50), Status.COMPLETED)
    # By now everybody has seen everything; and still:
    wait_until_all(insert(50), Status.COMPLETED)

    reasons = [
        letter["lastError"] for letter in documents.find({"status": "dlq"}, {"lastError": 1})
    ]
    assert len(reasons) > len(PENDING) / 2
    assert all(reasons)
    assert documents.count_documents({"status": "running", "leaseUntil": LONG_AGO}) == 0
