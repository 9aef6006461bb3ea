"""How a job looks to clients: camelCase, absent where it does not apply, times in UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from jobs.definitions import Definition
from jobs.executions import AttemptLog, Execution, execution_id
from jobs.exposure import exposed_delivery, exposed_text, exposed_value
from jobs.instants import format_instant
from jobs.lifecycle import Attempt, Job, Status
from jobs.repository.documents import BrokenJob

RUNNING: Final = "running"
"""Shown as the outcome of an attempt that has none yet."""
_MILLISECOND: Final = timedelta(milliseconds=1)


def job_body(job: Job | BrokenJob) -> dict[str, Any]:
    """A job as it is shown."""
    if isinstance(job, BrokenJob):
        return _broken_body(job)
    body: dict[str, Any] = {
        "id": str(job.id),
        "idempotencyKey": job.idempotency_key,
        "tenantId": job.tenant_id,
        "jobType": job.job_type,
    }
    if job.payload is not None:
        body["payload"] = exposed_text(job.payload)
    body["priority"] = job.priority
    body["status"] = job.status
    body["scheduledAt"] = format_instant(job.scheduled_at)
    if job.is_schedule:
        body["bucket"] = format_instant(job.bucket)
    if job.status is Status.RUNNING and job.claim_id:
        body["executionId"] = execution_id(job.id, job.claim_id)
    for name, attribute, shown in _OPTIONAL:
        value = getattr(job, attribute)
        if value is not None:
            body[name] = shown(value) if shown else value
    if job.tags:
        body["tags"] = job.tags
    if job.history:
        body["history"] = [_attempt_body(attempt) for attempt in job.history]
    body["attempts"] = job.attempts
    body["maxAttempts"] = job.max_attempts
    body["createdAt"] = format_instant(job.created_at)
    body["updatedAt"] = format_instant(job.updated_at)
    return body


_OPTIONAL: Final[tuple[tuple[str, str, Callable[[Any], Any] | None], ...]] = (
    ("cron", "cron", None),
    ("timezone", "timezone", None),
    ("catchUp", "catch_up", None),
    ("overlap", "overlap", None),
    ("missed", "missed", None),
    ("skipped", "skipped", None),
    ("pausedReason", "paused_reason", None),
    ("pausedUntil", "paused_until", format_instant),
    ("pausedBy", "paused_by", None),
    ("pausedAt", "paused_at", format_instant),
    ("templateId", "template_id", str),
    ("occurrenceAt", "occurrence_at", format_instant),
    ("definition", "definition", None),
    ("definitionVersion", "definition_version", None),
    ("delivery", "delivery", exposed_delivery),
    ("retry", "retry", None),
    ("timeoutSeconds", "timeout_seconds", None),
    ("requestId", "request_id", None),
    ("traceparent", "traceparent", None),
    ("queuedAt", "queued_at", format_instant),
    ("claimedBy", "claimed_by", None),
    ("claimedAt", "claimed_at", format_instant),
    ("leaseUntil", "lease_until", format_instant),
    ("startedAt", "started_at", format_instant),
    ("finishedAt", "finished_at", format_instant),
    ("expiresAt", "expires_at", format_instant),
    ("lastError", "last_error", None),
    ("result", "result", exposed_text),
)
_DEFINITION_OPTIONAL: Final[tuple[tuple[str, str, Callable[[Any], Any] | None], ...]] = (
    ("description", "description", None),
    ("delivery", "delivery", exposed_delivery),
    ("payload", "payload", exposed_text),
    ("priority", "priority", None),
    ("maxAttempts", "max_attempts", None),
    ("retry", "retry", None),
    ("timeoutSeconds", "timeout_seconds", None),
)
SHOWN: Final = (
    *("id", "idempotencyKey", "tenantId", "jobType", "payload", "priority", "status"),
    *(
        "scheduledAt",
        "bucket",
        "executionId",
        *(name for name, _, _ in _OPTIONAL),
        "tags",
        "history",
    ),
    *("attempts", "maxAttempts", "createdAt", "updatedAt"),
)
"""Every field that a job may show, in order."""


def _attempt_body(attempt: Attempt) -> dict[str, Any]:
    body = {
        "number": attempt.number,
        "executor": attempt.executor,
        "startedAt": format_instant(attempt.started_at),
        "finishedAt": format_instant(attempt.finished_at),
        "outcome": attempt.outcome,
    }
    if attempt.error is not None:
        body["error"] = attempt.error
    if attempt.error_class is not None:
        body["errorClass"] = attempt.error_class
    if attempt.response is not None:
        body["responseCode"] = attempt.response.code
    return body


def execution_body(execution: Execution, *, whole: bool) -> dict[str, Any]:
    """An attempt that has ended.

    Args:
        execution: it.
        whole: also with what its target answered.
    """
    attempt = execution.attempt
    body = _execution_head(
        execution.id, execution, attempt.number, attempt.executor, attempt.started_at
    )
    body["finishedAt"] = format_instant(attempt.finished_at)
    body["durationMs"] = (attempt.finished_at - attempt.started_at) // _MILLISECOND
    body["outcome"] = attempt.outcome
    if attempt.response is not None:
        body["responseCode"] = attempt.response.code
        if whole:
            body["responseExcerpt"] = attempt.response.excerpt
    if attempt.error_class is not None:
        body["errorClass"] = attempt.error_class
    if attempt.error is not None:
        body["error"] = attempt.error
    return body


def running_body(job: Job) -> dict[str, Any]:
    """The attempt that a running job is making."""
    body = _execution_head(
        execution_id(job.id, job.claim_id or ""),
        job,
        job.attempts + 1,
        job.claimed_by or "",
        job.started_at or job.updated_at,
    )
    return {**body, "outcome": RUNNING}


def _execution_head(
    shown_id: str, of: Execution | Job, number: int, executor: str, started_at: datetime
) -> dict[str, Any]:
    head = {
        "id": shown_id,
        "jobId": shown_id.partition("-")[0],
        "tenantId": of.tenant_id,
        "jobType": of.job_type,
    }
    if of.template_id is not None:
        head["templateId"] = str(of.template_id)
    if of.definition is not None:
        head["definition"] = of.definition
    return {
        **head,
        "attempt": number,
        "executor": executor,
        "startedAt": format_instant(started_at),
    }


def log_body(shown_id: str, log: AttemptLog) -> dict[str, Any]:
    """What an attempt logged."""
    body: dict[str, Any] = {
        "executionId": shown_id,
        "lines": [
            {
                "at": format_instant(line.at),
                "level": line.level,
                "logger": line.logger,
                "message": line.message,
            }
            for line in log.lines
        ],
    }
    if log.is_truncated:
        body["truncated"] = True
    return body


def log_text(log: AttemptLog) -> str:
    """The same for people."""
    return "".join(
        f"{format_instant(line.at)} {line.level} {line.logger}: {line.message}\n"
        for line in log.lines
    )


def _broken_body(job: BrokenJob) -> dict[str, Any]:
    document = job.document
    shown = {name: exposed_value(document[name]) for name in SHOWN if name in document}
    if "delivery" in shown:
        shown["delivery"] = exposed_delivery(str(shown["delivery"]))
    return {"id": str(job.id), **shown, "unreadable": job.problem}


def definition_body(definition: Definition) -> dict[str, Any]:
    """A definition as it is shown."""
    body: dict[str, Any] = {
        "name": definition.name,
        "tenantId": definition.tenant_id,
        "version": definition.version,
        "jobType": definition.job_type,
    }
    for name, attribute, shown in _DEFINITION_OPTIONAL:
        value = getattr(definition, attribute)
        if value is not None:
            body[name] = shown(value) if shown else value
    if definition.tags:
        body["tags"] = definition.tags
    body["createdAt"] = format_instant(definition.created_at)
    body["updatedAt"] = format_instant(definition.updated_at)
    return body
