"""What travels through Kafka: names of topics and groups, and the small wake-up messages."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from bson import ObjectId

from jobs.repository.dead_letters import DeadLetter
from jobs.repository.dispatch import DueJob

DLQ_TOPIC: Final = "jobs.dlq"
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
    """A value for a topic. The key decides the partition; None: any."""

    topic: str
    value: bytes
    key: bytes | None = None


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
