"""Jobs for tests: valid as they are, with only what a test is about spelled out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

from jobs.lifecycle import CatchUp, Job, Overlap, Status, job_id_for

NOW: Final = datetime(2026, 1, 15, 12, tzinfo=UTC)
"""The instant that tests with a fixed clock live in; in the past, so jobs due then are due."""

_numbers = count(1)


def a_job(**overrides: Any) -> Job:
    """A pending one-off job, created and due at NOW. Its id follows from its key.

    Args:
        overrides: fields of `Job`; `idempotency_key` is otherwise one that no other job has.
    """
    key = overrides.pop("idempotency_key", f"job-{next(_numbers)}")
    fields: dict[str, Any] = {
        "id": job_id_for(key),
        "tenant_id": "tenant-a",
        "job_type": "noop",
        "status": Status.PENDING,
        "scheduled_at": NOW,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Job(idempotency_key=key, **(fields | overrides))


def a_template(**overrides: Any) -> Job:
    """A pending template that fires every minute, next a minute after NOW."""
    fields: dict[str, Any] = {
        "cron": "* * * * *",
        "catch_up": CatchUp.ONE,
        "overlap": Overlap.ALLOW,
        "missed": 0,
        "skipped": 0,
        "scheduled_at": NOW + timedelta(minutes=1),
    }
    return a_job(**(fields | overrides))
