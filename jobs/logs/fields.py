"""What a log line carries besides its sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from jobs import origin
from jobs.executions import execution_id
from jobs.lifecycle import Job
from jobs.tracing.traceparent import trace_id_of

ALWAYS: Final = ("time", "level", "logger", "event", "message", "role", "process")
"""The keys of every line."""
SOMETIMES: Final = (
    *("job_id", "job_type", "tenant_id", "attempt", "execution_id", "request_id", "trace_id"),
    *("error", "exc_info"),
)
"""Keys that always mean the same, on the lines that they apply to."""

_attempt: ContextVar[Job | None] = ContextVar("attempt", default=None)


@contextmanager
def attempting(job: Job) -> Iterator[None]:
    """Tell of the attempt on every line that this thread or asyncio task logs in the block.

    Args:
        job: as it was claimed.
    """
    # The keys are made when a line is: most attempts log nothing.
    token = _attempt.set(job)
    try:
        yield
    finally:
        _attempt.reset(token)


def carried() -> Mapping[str, Any]:
    """The keys of the attempt that is being made, or of the request."""
    if (job := _attempt.get()) is not None:
        return of_attempt(job)
    now = origin.current()
    return _of_origin(now.request_id, now.traceparent)


def of_job(job: Job) -> dict[str, str]:
    """What tells a job."""
    return {
        "job_id": str(job.id),
        "job_type": job.job_type,
        "tenant_id": job.tenant_id,
        **_of_origin(job.request_id, job.traceparent),
    }


def _of_origin(request_id: str | None, traceparent: str | None) -> dict[str, str]:
    fields = {"request_id": request_id, "trace_id": trace_id_of(traceparent)}
    return {name: value for name, value in fields.items() if value is not None}


def of_attempt(job: Job) -> dict[str, Any]:
    """What tells the attempt that a claimed job is making."""
    return {
        **of_job(job),
        "attempt": job.attempts + 1,
        "execution_id": execution_id(job.id, job.claim_id or ""),
    }
