"""What a log line carries besides its sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
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

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_carried: ContextVar[Mapping[str, Any]] = ContextVar("log_fields", default=_NOTHING)


@contextmanager
def carrying(fields: Mapping[str, Any]) -> Iterator[None]:
    """Put these on every line that this thread or asyncio task logs in the block."""
    token = _carried.set({**_carried.get(), **fields})
    try:
        yield
    finally:
        _carried.reset(token)


def carried() -> Mapping[str, Any]:
    """What `carrying` says now, and on whose behalf this is."""
    now = origin.current()
    return {**_of_origin(now.request_id, now.traceparent), **_carried.get()}


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
