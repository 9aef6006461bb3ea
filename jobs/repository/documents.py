"""Jobs as MongoDB documents, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bson import ObjectId

from jobs.errors import UnreadableJob
from jobs.instants import EARLIEST
from jobs.lifecycle import (
    MAX_TIMEOUT_SECONDS,
    Attempt,
    CatchUp,
    Job,
    Outcome,
    Overlap,
    Response,
    Status,
    shard_of,
)

RUNNABLE: Final = "job"
TEMPLATE: Final = "template"
# MongoDB's partial indexes can ask whether a field exists, not whether it is absent; so what `cron`
# already says is stored once more, in a field that never changes.
KIND: Final = "kind"

_OPTIONAL: Final = (
    ("payload", "payload"),
    ("cron", "cron"),
    ("timezone", "timezone"),
    ("catchUp", "catch_up"),
    ("overlap", "overlap"),
    ("missed", "missed"),
    ("skipped", "skipped"),
    ("pausedReason", "paused_reason"),
    ("pausedUntil", "paused_until"),
    ("pausedBy", "paused_by"),
    ("pausedAt", "paused_at"),
    ("templateId", "template_id"),
    ("occurrenceAt", "occurrence_at"),
    ("definition", "definition"),
    ("definitionVersion", "definition_version"),
    ("overrides", "overrides"),
    ("delivery", "delivery"),
    ("requestId", "request_id"),
    ("traceparent", "traceparent"),
    ("retry", "retry"),
    ("timeoutSeconds", "timeout_seconds"),
    ("queuedAt", "queued_at"),
    ("claimedBy", "claimed_by"),
    ("claimedAt", "claimed_at"),
    ("claimId", "claim_id"),
    ("leaseUntil", "lease_until"),
    ("startedAt", "started_at"),
    ("finishedAt", "finished_at"),
    ("expiresAt", "expires_at"),
    ("lastError", "last_error"),
    ("result", "result"),
)
FIELDS: Final = frozenset(
    {
        *("_id", "shard", KIND, "idempotencyKey", "tenantId", "jobType", "priority", "status"),
        *("scheduledAt", "attempts", "maxAttempts", "createdAt", "updatedAt", "tags", "history"),
        *(name for name, _ in _OPTIONAL),
        *("dlqPublishedAt", "errorGroup"),
    }
)
"""All that a job's document may have."""
_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "_id": ObjectId,
    "templateId": ObjectId,
    "retry": dict,
    "tags": list,
    "history": list,
    "timeoutSeconds": (int, float),
    **dict.fromkeys(
        ("priority", "attempts", "maxAttempts", "missed", "skipped", "definitionVersion"), int
    ),
    **dict.fromkeys(
        (
            *("idempotencyKey", "tenantId", "jobType", "status", "payload", "cron", "timezone"),
            *("catchUp", "overlap", "claimedBy", "claimId", "lastError", "result"),
            *("definition", "overrides", "delivery", "pausedReason", "pausedBy"),
            *("requestId", "traceparent"),
        ),
        str,
    ),
    **dict.fromkeys(
        (
            *("scheduledAt", "createdAt", "updatedAt", "occurrenceAt", "queuedAt", "claimedAt"),
            *("leaseUntil", "startedAt", "finishedAt", "expiresAt", "pausedUntil", "pausedAt"),
        ),
        datetime,
    ),
}
ATTEMPT_KINDS: Final[Mapping[str, type]] = {
    "number": int,
    "executor": str,
    "startedAt": datetime,
    "finishedAt": datetime,
    "outcome": str,
    "error": str,
    "errorClass": str,
    "responseCode": int,
    "responseExcerpt": str,
}
_INT32: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class BrokenJob:
    """A document that breaks the rules of a job, as after an edit by hand."""

    id: ObjectId
    problem: str
    document: Mapping[str, Any]


def to_document(job: Job) -> dict[str, Any]:
    """The document of a job; fields that do not apply are absent."""
    document: dict[str, Any] = {
        "_id": job.id,
        "shard": shard_of(job.id),
        KIND: TEMPLATE if job.is_template else RUNNABLE,
        "idempotencyKey": job.idempotency_key,
        "tenantId": job.tenant_id,
        "jobType": job.job_type,
        "priority": job.priority,
        "status": str(job.status),
        "scheduledAt": job.scheduled_at,
        "attempts": job.attempts,
        "maxAttempts": job.max_attempts,
        "createdAt": job.created_at,
        "updatedAt": job.updated_at,
    }
    for name, attribute in _OPTIONAL:
        value = getattr(job, attribute)
        if value is not None:
            document[name] = value
    if job.tags:
        document["tags"] = list(job.tags)
    if job.history:
        document["history"] = [attempt_document(attempt) for attempt in job.history]
    return document


def from_document(document: Mapping[str, Any]) -> Job:
    """The job that a document holds.

    Raises:
        UnreadableJob: a field is missing, or holds what would stop a role, as after an edit by
            hand.
    """
    get = document.get
    try:
        check_kinds(document, _KINDS)
        _check_ranges(document)
        return Job(
            id=document["_id"],
            idempotency_key=document["idempotencyKey"],
            tenant_id=document["tenantId"],
            job_type=document["jobType"],
            status=Status(document["status"]),
            scheduled_at=document["scheduledAt"],
            created_at=document["createdAt"],
            updated_at=document["updatedAt"],
            payload=get("payload"),
            priority=document["priority"],
            attempts=document["attempts"],
            max_attempts=document["maxAttempts"],
            cron=get("cron"),
            timezone=get("timezone"),
            catch_up=CatchUp(document["catchUp"]) if "catchUp" in document else None,
            overlap=Overlap(document["overlap"]) if "overlap" in document else None,
            missed=get("missed"),
            skipped=get("skipped"),
            paused_reason=get("pausedReason"),
            paused_until=get("pausedUntil"),
            paused_by=get("pausedBy"),
            paused_at=get("pausedAt"),
            template_id=get("templateId"),
            occurrence_at=get("occurrenceAt"),
            tags=tuple(get("tags", ())),
            definition=get("definition"),
            definition_version=get("definitionVersion"),
            overrides=get("overrides"),
            delivery=get("delivery"),
            request_id=get("requestId"),
            traceparent=get("traceparent"),
            retry=get("retry"),
            timeout_seconds=get("timeoutSeconds"),
            queued_at=get("queuedAt"),
            claimed_by=get("claimedBy"),
            claimed_at=get("claimedAt"),
            claim_id=get("claimId"),
            lease_until=get("leaseUntil"),
            started_at=get("startedAt"),
            finished_at=get("finishedAt"),
            expires_at=get("expiresAt"),
            last_error=get("lastError"),
            result=get("result"),
            history=tuple(map(_history_entry, get("history", ()))),
        )
    except KeyError as exc:
        raise UnreadableJob(f"job {get('_id')}: {exc.args[0]} is missing") from exc
    except ValueError as exc:
        raise UnreadableJob(f"job {get('_id')}: {exc}") from exc


def check_kinds(document: Mapping[str, Any], kinds: Mapping[str, type | tuple[type, ...]]) -> None:
    """Raise ValueError where a field of a document is of another type than it should be."""
    for name, value in document.items():
        kind = kinds.get(name)
        # Updates that count up or append fail on a null, and on True, which Python takes for 1.
        if kind is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ValueError(f"{name} cannot be {value!r:.200}")


def _check_ranges(document: Mapping[str, Any]) -> None:
    get = document.get
    for name in ("attempts", "missed", "skipped"):
        if not 0 <= get(name, 0) < _INT32:
            raise ValueError(f"{name} cannot be {get(name)}")
    for name in ("priority", "maxAttempts"):
        if not -_INT32 <= get(name, 0) < _INT32:
            raise ValueError(f"{name} cannot be {get(name)}")
    if document["scheduledAt"] < EARLIEST:
        raise ValueError(f"scheduledAt cannot be {document['scheduledAt']}")
    # NaN fails the comparison too.
    if not 0 < get("timeoutSeconds", 1) <= MAX_TIMEOUT_SECONDS:
        raise ValueError(f"timeoutSeconds cannot be {get('timeoutSeconds')}")
    if any(not isinstance(tag, str) for tag in get("tags", ())):
        raise ValueError(f"tags cannot be {get('tags')!r:.200}")


def read_document(document: Mapping[str, Any]) -> Job | BrokenJob:
    """The job that a document holds, or what is wrong with it, for people to see."""
    try:
        return from_document(document)
    except UnreadableJob as exc:
        return BrokenJob(document["_id"], str(exc), document)


def attempt_document(attempt: Attempt) -> dict[str, Any]:
    """One entry of `history`."""
    document = {
        "number": attempt.number,
        "executor": attempt.executor,
        "startedAt": attempt.started_at,
        "finishedAt": attempt.finished_at,
        "outcome": str(attempt.outcome),
    }
    if attempt.error is not None:
        document["error"] = attempt.error
    if attempt.error_class is not None:
        document["errorClass"] = attempt.error_class
    if attempt.response is not None:
        document["responseCode"] = attempt.response.code
    return document


def attempt_from(document: Mapping[str, Any]) -> Attempt:
    """The attempt that an entry of `history`, or the record of an execution, holds.

    Raises:
        ValueError: a field is missing, or holds what it cannot.
    """
    check_kinds(document, ATTEMPT_KINDS)
    response = None
    if "responseCode" in document:
        response = Response(document["responseCode"], document.get("responseExcerpt", ""))
    try:
        return Attempt(
            number=document["number"],
            executor=document["executor"],
            started_at=document["startedAt"],
            finished_at=document["finishedAt"],
            outcome=Outcome(document["outcome"]),
            error=document.get("error"),
            error_class=document.get("errorClass"),
            response=response,
        )
    except KeyError as exc:
        raise ValueError(f"{exc.args[0]} is missing") from exc


def _history_entry(document: object) -> Attempt:
    if not isinstance(document, Mapping):
        raise ValueError(f"history cannot hold {document!r:.200}")
    try:
        return attempt_from(document)
    except ValueError as exc:
        raise ValueError(f"history has a bad entry: {exc}") from exc
