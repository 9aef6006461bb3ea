"""What became of the submitted jobs, by the times that the system itself wrote down."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from jobs.lifecycle import LIVE
from jobs.load.api import Api, LoadError
from jobs.logs import events

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Fate:
    """A job as it was last seen."""

    status: str
    created_at: datetime
    started_at: datetime | None
    """The first attempt's start."""
    finished_at: datetime | None

    @property
    def is_over(self) -> bool:
        return self.status not in LIVE


def wait_until_over(api: Api, tenant: str, patience: timedelta) -> dict[str, Fate]:
    """The fates of a tenant's jobs, by idempotency key, once all are over.

    Asks seldom and little, so as not to load what is being measured: only whether there is one live
    job, until there is none.

    Args:
        api: where to ask.
        tenant: whose jobs.
        patience: after so long the others are given up and returned as they are.

    Raises:
        LoadError: the API did not list the jobs at the end.
    """
    give_up_at = time.monotonic() + patience.total_seconds()
    while True:
        is_late = time.monotonic() > give_up_at
        try:
            if is_late or not _has_live_jobs(api, tenant):
                fates = {job["idempotencyKey"]: _fate(job) for job in api.all_jobs(tenant)}
                # A job may have been between two statuses when they were asked for in turn.
                if is_late or all(fate.is_over for fate in fates.values()):
                    return fates
        except LoadError as exc:
            if is_late:
                raise
            logger.debug("asking again: %s", exc, extra=events.ASKING_AGAIN(error=exc))
        time.sleep(_POLL_SECONDS)


def _has_live_jobs(api: Api, tenant: str) -> bool:
    return any(api.jobs(tenant, status=str(status), limit=1) for status in LIVE)


def _fate(job: Mapping[str, Any]) -> Fate:
    history = job.get("history")
    first = history[0] if history else job
    return Fate(
        status=job["status"],
        created_at=datetime.fromisoformat(job["createdAt"]),
        started_at=_instant(first, "startedAt"),
        finished_at=_instant(job, "finishedAt"),
    )


def _instant(document: Mapping[str, Any], name: str) -> datetime | None:
    return datetime.fromisoformat(document[name]) if name in document else None
