"""What travels through Kafka: names of topics and groups, and the small wake-up messages."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bson import ObjectId

from jobs.instants import format_instant, parse_instant
from jobs.lifecycle import SHARDS
from jobs.repository.dead_letters import DeadLetter
from jobs.repository.dispatch import DueJob

DLQ_TOPIC: Final = "jobs.dlq"
TRIGGERS_TOPIC: Final = "bucket-triggers"
FANOUT_GROUP: Final = "fanout"
_DISPATCH_PREFIX: Final = "jobs.dispatch."
# Kafka allows 249 characters in a topic's name.
JOB_TYPE: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
_ID: Final = re.compile(r"[0-9a-f]{24}")


def dispatch_topic(job_type: str) -> str:
    """The topic that wakes the executors of a job type."""
    return _DISPATCH_PREFIX + job_type


def consumer_group(job_type: str) -> str:
    """The group that shares a job type's messages among executors."""
    return "executor-" + job_type


@dataclass(frozen=True, slots=True)
class Message:
    """A value for a topic. Without `partition` the key decides about it; both None: any."""

    topic: str
    value: bytes
    key: bytes | None = None
    partition: int | None = None


def dispatch_message(job: DueJob) -> Message:
    """The wake-up for one queued job; the payload stays in MongoDB."""
    text = json.dumps({"jobId": str(job.id), "jobType": job.job_type, "priority": job.priority})
    return Message(dispatch_topic(job.job_type), text.encode())


def dead_letter_message(letter: DeadLetter) -> Message:
    """The announcement of a dead letter, for inspection outside. May come more than once."""
    document: dict[str, Any] = {
        "jobId": str(letter.id),
        "jobType": letter.job_type,
        "tenantId": letter.tenant_id,
        "idempotencyKey": letter.idempotency_key,
        "attempts": letter.attempts,
        "lastError": letter.last_error,
    }
    return Message(DLQ_TOPIC, json.dumps(document).encode(), str(letter.id).encode())


def job_id_of(value: bytes | None) -> ObjectId | None:
    """The job that a dispatch message names, or None when the message is junk."""
    try:
        job_id = json.loads(value or b"")["jobId"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return ObjectId(job_id) if isinstance(job_id, str) and _ID.fullmatch(job_id) else None


def shards_of(partition: int, partitions: int) -> range:
    """The shards that go with one partition of `bucket-triggers`: each goes with exactly one.

    Of more partitions than shards some have none.
    """
    return range(partition * SHARDS // partitions, (partition + 1) * SHARDS // partitions)


@dataclass(frozen=True, slots=True)
class Trigger:
    """A minute has come in which jobs are due, for those who own these shards."""

    bucket: datetime
    """The minute's beginning."""
    shards: range


def trigger_messages(bucket: datetime, partitions: int) -> list[Message]:
    """One trigger for each range of shards, to the partition of those who own it."""
    ranges = {partition: shards_of(partition, partitions) for partition in range(partitions)}
    return [
        Message(
            TRIGGERS_TOPIC,
            json.dumps(
                {"bucket": format_instant(bucket), "shards": [shards.start, shards.stop - 1]}
            ).encode(),
            partition=partition,
        )
        for partition, shards in ranges.items()
        if shards
    ]


def trigger_of(value: bytes | None) -> Trigger | None:
    """The trigger that a message holds, or None when the message is junk."""
    try:
        document = json.loads(value or b"")
        bucket = parse_instant(document["bucket"])
        first, last = document["shards"]
        shards = range(first, last + 1)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return Trigger(bucket, shards) if 0 <= first <= last < SHARDS else None
