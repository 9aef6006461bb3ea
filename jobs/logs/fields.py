"""What a log line carries besides its sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

from jobs.executions import execution_id
from jobs.lifecycle import Job

ALWAYS: Final = ("time", "level", "logger", "event", "message", "role", "process")
"""The keys of every line."""
SOMETIMES: Final = (
    *("job_id", "job_type", "tenant_id", "attempt", "execution_id"),
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
    """What `carrying` says now."""
    return _carried.get()


def of_job(job: Job) -> dict[str, str]:
    """What tells a job."""
    return {"job_id": str(job.id), "job_type": job.job_type, "tenant_id": job.tenant_id}


def of_attempt(job: Job) -> dict[str, Any]:
    """What tells the attempt that a claimed job is making."""
    return {
        **of_job(job),
        "attempt": job.attempts + 1,
        "execution_id": execution_id(job.id, job.claim_id or ""),
    }
