"""What is due of each job type, and how many executors serve it: for alerts and autoscalers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from jobs.repository import Repository
from reaper.metrics import EXECUTORS_SERVING, JOBS_DUE, JOBS_QUEUED, OLDEST_DUE_SECONDS

COUNT_EVERY: Final = timedelta(seconds=5)
_COUNTED_OF_A_TYPE: Final = 10_000
_COUNTED: Final = 100_000
_LARGEST_PART_OF_TIME: Final = 1 / 20
_TYPES_LOOKED_FOR: Final = 1_000
_SILENCE: Final = timedelta(seconds=10)
_KEPT: Final = timedelta(minutes=1)
_GAUGES: Final = (JOBS_DUE, OLDEST_DUE_SECONDS, JOBS_QUEUED, EXECUTORS_SERVING)


class BacklogGauges:
    """Keeps the gauges of one process. Several reapers show the same, each as of its last count."""

    def __init__(
        self, repository: Repository, job_types: Iterable[str], *, stop: threading.Event
    ) -> None:
        """
        Args:
            repository: where the jobs and the register of executors are.
            job_types: always shown, also while there is nothing to see.
            stop: ends a count between two types.
        """
        self._repository = repository
        self._stop = stop
        self._job_types = frozenset(job_types)
        self._shown: frozenset[str] = frozenset()
        self._counted_at = datetime.min.replace(tzinfo=UTC)
        self._rests_until = 0.0

    def count(self) -> None:
        """Count once, unless the last time took so long that it would be a load to do it again.

        What cannot be counted is shown for a minute more, then no longer.
        """
        begun = time.monotonic()
        if begun < self._rests_until:
            return
        now = self._repository.clock.now()
        try:
            self._show(now)
        except Exception:
            if now - self._counted_at > _KEPT:
                self._keep(frozenset())
            raise
        self._counted_at = now
        self._rests_until = begun + (time.monotonic() - begun) / _LARGEST_PART_OF_TIME

    def _show(self, now: datetime) -> None:
        serving, queued = self._serving(now), self._queued()
        census = self._repository.census
        waiting = census.types_with_pending(limit=_TYPES_LOOKED_FOR)
        job_types = self._job_types.union(serving, queued, waiting)
        # Of few types much is counted, of many little: the whole stays bounded.
        limit = min(_COUNTED_OF_A_TYPE, _COUNTED // max(len(job_types), 1))
        backlogs = {}
        for job_type in job_types:
            if self._stop.is_set():
                return
            backlogs[job_type] = census.backlog(job_type, now=now, limit=limit)
        for job_type, backlog in backlogs.items():
            late = (now - backlog.oldest).total_seconds() if backlog else 0
            JOBS_DUE.labels(job_type).set(backlog.count if backlog else 0)
            OLDEST_DUE_SECONDS.labels(job_type).set(late)
            JOBS_QUEUED.labels(job_type).set(queued[job_type])
            EXECUTORS_SERVING.labels(job_type).set(serving[job_type])
        self._keep(job_types)

    def _serving(self, now: datetime) -> Counter[str]:
        live = self._repository.nodes.live(role="executor", seen_since=now - _SILENCE)
        return Counter(
            job_type for node in live if not node.is_draining for job_type in node.job_types
        )

    def _queued(self) -> Counter[str]:
        groups = self._repository.dispatch.in_flight()
        return Counter({each.job_type: each.count for each in groups if each.executor is None})

    def _keep(self, job_types: frozenset[str]) -> None:
        for gone in self._shown - job_types:
            for gauge in _GAUGES:
                gauge.remove(gone)
        self._shown = job_types
