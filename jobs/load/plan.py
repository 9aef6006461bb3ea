"""What a load test submits, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from jobs.instants import format_instant

BULK: Final = 1000
"""Jobs in one request of a backlog: as many as POST /jobs/bulk takes."""
PAYLOAD: Final[Mapping[str, Any]] = {"message": "load test ".ljust(86, ".")}
"""100 bytes of JSON; `log-message` needs a message and the other types do not mind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One load test. Jobs are numbered from 0."""

    tenant: str
    """Its jobs alone, so that they are found again."""
    jobs: int
    rate: float | None
    """Jobs per second, each in a request of its own; None: all at once, in bulk (a backlog)."""
    due_in: timedelta
    """From when a job is to be submitted until it is due."""
    job_type: str
    payload: Mapping[str, Any]

    @property
    def is_backlog(self) -> bool:
        return self.rate is None

    @property
    def requests(self) -> list[Sequence[int]]:
        """The numbers of the jobs that each request carries."""
        size = BULK if self.is_backlog else 1
        return [range(self.jobs)[i : i + size] for i in range(0, self.jobs, size)]

    def submit_after(self, number: int) -> timedelta:
        """When a job is to be submitted, from the start."""
        return timedelta(seconds=0 if self.rate is None else number / self.rate)

    def due_at(self, number: int, start: datetime) -> datetime:
        """When a job is due, in whole milliseconds as the system keeps them."""
        at = start + self.submit_after(number) + self.due_in
        return at.replace(microsecond=at.microsecond // 1000 * 1000)

    def key(self, number: int) -> str:
        """A job's idempotency key."""
        return f"{self.tenant}-{number}"

    def document(self, number: int, start: datetime) -> dict[str, Any]:
        """A job as it is submitted."""
        return {
            "idempotencyKey": self.key(number),
            "tenantId": self.tenant,
            "jobType": self.job_type,
            "scheduledAt": format_instant(self.due_at(number, start)),
            "payload": self.payload,
        }
