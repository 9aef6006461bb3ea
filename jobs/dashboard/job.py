"""One job: what happened to it, what each attempt said, and what can be done about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from bson import ObjectId
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from jobs.api.representation import job_body
from jobs.dashboard.page import PageRequest, access, page, require_tenant, use_cases
from jobs.dashboard.pretty import readable
from jobs.dashboard.rights import Right
from jobs.dashboard.timeline import timeline
from jobs.errors import UnreadableExecution
from jobs.executions import AttemptLog, Execution, execution_id
from jobs.exposure import exposed_delivery, exposed_text, exposed_value
from jobs.lifecycle import IN_FLIGHT, LIVE, Job, Status
from jobs.repository.documents import KIND, TEMPLATE, BrokenJob
from jobs.repository.executions import Wanted
from jobs.tracing.traceparent import trace_id_of

_ATTEMPTS: Final = 50
_ENTRIES: Final = 50
_OPENED: Final = 5
"""Attempts whose logs and answers are read with the page; the others by a link."""
_LARGE: Final = 2_048
_SOON: Final = timedelta(minutes=1)
_WATCHED_SECONDS: Final = 2
_ALLOWED: Final[Mapping[str, tuple[Status, ...]]] = {
    "cancel": LIVE,
    "redrive": (Status.DLQ, Status.CANCELLED),
    "discard": (Status.DLQ,),
    "run": (Status.PENDING,),
    "reschedule": (Status.PENDING,),
    "priority": (Status.PENDING,),
    "clone": tuple(Status),
}
"""In which statuses each action can be asked for."""


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt as the page shows it."""

    id: str
    number: int
    executor: str
    started_at: datetime | None
    lasted: timedelta | None
    outcome: str
    error: str | None = None
    error_class: str | None = None
    response_code: int | None = None
    excerpt: str | None = None
    log: AttemptLog | None = None
    is_opened: bool = False
    """Its log and answer were looked up."""

    @property
    def failure(self) -> str:
        """Its error after what kind it is; those that handlers raise begin with that already."""
        error, kind = self.error or "", self.error_class
        is_told = kind is None or error == kind or error.startswith(f"{kind}:")
        return error if is_told else f"{kind}: {error}"


@dataclass(frozen=True, slots=True)
class Text:
    """A value to be shown in a box of its own."""

    title: str
    text: str

    @property
    def is_folded(self) -> bool:
        return len(self.text) > _LARGE


@require_safe
def job(request: PageRequest, id: ObjectId) -> HttpResponse:
    """/admin/jobs/<id>/"""
    found = find_job(request, id)
    if is_template(found):
        return redirect("admin:template", id)
    return job_page(request, found)


def find_job(request: HttpRequest, job_id: ObjectId, right: Right = Right.VIEW) -> Job | BrokenJob:
    """A job in whose tenant the user has a right.

    Raises:
        JobNotFound, Http404: there is none, or it is none of the user's.
        PermissionDenied: the right is missing.
    """
    found = use_cases().repository.jobs.read(job_id)
    require_tenant(request, _tenant_of(found), right)
    return found


def is_template(found: Job | BrokenJob) -> bool:
    """Whether it has its page among the templates."""
    if isinstance(found, Job):
        return found.is_template
    return found.document.get(KIND) == TEMPLATE


def _tenant_of(found: Job | BrokenJob) -> str:
    """Whose it is; "", which only superusers see, where that was edited into something else."""
    if isinstance(found, Job):
        return found.tenant_id
    tenant_id = found.document.get("tenantId")
    return tenant_id if isinstance(tenant_id, str) else ""


def job_page(
    request: PageRequest,
    found: Job | BrokenJob,
    *,
    typed: Mapping[str, str] | None = None,
    problems: Mapping[str, str] | None = None,
    is_stale: bool = False,
) -> HttpResponse:
    """The page of a job.

    Args:
        request: it.
        found: the job.
        typed: what the fields of its forms are to hold.
        problems: what is wrong with that, by field.
        is_stale: it was meant for the job as it was before somebody else changed it.
    """
    now = use_cases().repository.clock.now()
    context: dict[str, Any] = {
        "now": now,
        "id": found.id,
        "typed": typed or {},
        # A form that was refused is shown again under its own address, which takes no GET.
        "refresh_path": reverse("admin:job", args=[found.id]) if problems else None,
        "problems": problems or {},
        "raw": readable(job_body(found)),
    }
    if isinstance(found, BrokenJob):
        title = str(found.document.get("idempotencyKey", found.id))
        status = found.document.get("status")
        context |= {"broken": found}
    else:
        title, status = found.idempotency_key, found.status
        context |= _facts(request, found, now)
    allowed = frozenset(name for name, statuses in _ALLOWED.items() if status in statuses)
    context["allowed"] = (
        allowed if access(request).may(_tenant_of(found), Right.OPERATE) else frozenset()
    )
    return page(
        request,
        "dashboard/job.html",
        f"Job {title}",
        context,
        status=409 if is_stale else 422 if problems else 200,
        refresh_seconds=_WATCHED_SECONDS if _is_watched(found, now) else None,
    )


def _is_watched(found: Job | BrokenJob, now: datetime) -> bool:
    """Whether something is about to happen to it."""
    if isinstance(found, BrokenJob):
        return False
    is_soon = found.status is Status.PENDING and found.scheduled_at < now + _SOON
    return is_soon or found.status in IN_FLIGHT


def _facts(request: PageRequest, job: Job, now: datetime) -> dict[str, Any]:
    repository = use_cases().repository
    executions, older = repository.executions.page(Wanted(job_id=job.id), limit=_ATTEMPTS)
    entries, _ = repository.audit_log.page(
        access(request).tenants, limit=_ENTRIES, target=str(job.id)
    )
    asked = request.GET.get("attempt", "")
    rows = [
        _row(execution, is_opened=place < _OPENED or execution.id == asked)
        for place, execution in enumerate(executions)
    ]
    if job.status is Status.RUNNING:
        rows.insert(0, _running_row(job, now))
    return {
        "job": job,
        "trace_id": trace_id_of(job.traceparent),
        "lag": _lag(job, executions, now),
        "events": timeline(job, executions, entries, now, has_older=older is not None),
        "attempts": rows,
        "has_more_attempts": older is not None,
        "entries": entries,
        "texts": list(_texts(job)),
    }


def _lag(job: Job, executions: list[Execution], now: datetime) -> timedelta | None:
    """How late the last attempt began, or how late the next one is by now."""
    if job.status in (Status.PENDING, Status.QUEUED, Status.CLAIMED):
        return max(now - job.ready_at, timedelta(0)) if job.scheduled_at < now else None
    started_at = executions[0].attempt.started_at if executions else job.started_at
    return None if started_at is None else max(started_at - job.ready_at, timedelta(0))


def _row(execution: Execution, *, is_opened: bool) -> AttemptRow:
    attempt = execution.attempt
    excerpt, log = None, None
    if is_opened:
        excerpt = _excerpt(execution) if attempt.response is not None else None
        log = use_cases().repository.attempt_logs.find(execution.id)
    return AttemptRow(
        execution.id,
        attempt.number,
        attempt.executor,
        attempt.started_at,
        attempt.finished_at - attempt.started_at,
        str(attempt.outcome),
        attempt.error,
        attempt.error_class,
        attempt.response.code if attempt.response else None,
        excerpt,
        log,
        is_opened,
    )


def _excerpt(execution: Execution) -> str | None:
    try:
        whole = use_cases().repository.executions.find(execution.id)
    except UnreadableExecution:
        return None
    return whole.attempt.response.excerpt if whole and whole.attempt.response else None


def _running_row(job: Job, now: datetime) -> AttemptRow:
    shown_id = execution_id(job.id, job.claim_id or "")
    return AttemptRow(
        shown_id,
        job.attempts + 1,
        job.claimed_by or "",
        job.started_at,
        None if job.started_at is None else now - job.started_at,
        str(Status.RUNNING),
        log=use_cases().repository.attempt_logs.find(shown_id),
        is_opened=True,
    )


def _texts(job: Job) -> list[Text]:
    values = {
        "Payload": None if job.payload is None else exposed_text(job.payload),
        "Result": None if job.result is None else exposed_text(job.result),
        "Delivery": None if job.delivery is None else exposed_delivery(job.delivery),
        "Retry policy": None if job.retry is None else exposed_value(job.retry),
    }
    return [Text(title, readable(value)) for title, value in values.items() if value is not None]
