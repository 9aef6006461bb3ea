"""What charts are drawn from: how many attempts ended, how, and how late they had started.

Executors count in memory and add their counts to documents that hold one job type in one stretch of
time (docs/decisions/0026). Nothing here does any I/O.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

from jobs.lifecycle import Finish, Job, Outcome, Status

_FAILURES: Final = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.LOST})
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Two for each doubling: what lies inside of one differs from its middle by less than 19 %.
_PER_DOUBLING: Final = 2
# The last one begins at 12 days, and holds all that is later.
_LAST: Final = 60


class Resolution(Enum):
    """How long the stretches are that are counted together, and for how long they are kept."""

    MINUTE = ("1m", timedelta(minutes=1), timedelta(hours=3))
    QUARTER = ("15m", timedelta(minutes=15), timedelta(days=2))
    TWO_HOURS = ("2h", timedelta(hours=2), timedelta(days=9))

    def __init__(self, label: str, step: timedelta, kept: timedelta) -> None:
        self.label = label
        self.step = step
        self.kept = kept

    def start_of(self, at: datetime) -> datetime:
        """When the stretch began that an instant (aware UTC) lies in."""
        return at - (at - _EPOCH) % self.step


@dataclass(slots=True)
class Tally:
    """Counts of attempts."""

    completed: int = 0
    failed: int = 0
    """Failed, timed out or lost."""
    dead: int = 0
    """Those of the failed that made their job a dead letter."""
    milliseconds: int = 0
    """How long the completed and the failed took together."""
    lags: Counter[int] = field(default_factory=Counter)
    """How many started how late: see `lag_bucket`."""

    @property
    def ended(self) -> int:
        return self.completed + self.failed

    def note(self, job: Job, finish: Finish) -> None:
        """Count one attempt that has ended."""
        attempt = finish.attempt
        self.lags[lag_bucket(attempt.started_at - job.ready_at)] += 1
        if attempt.outcome is Outcome.COMPLETED:
            self.completed += 1
        elif attempt.outcome in _FAILURES:
            self.failed += 1
            self.dead += finish.status is Status.DLQ
        else:
            return
        self.milliseconds += max(0, (attempt.finished_at - attempt.started_at) // _MILLISECOND)

    def add(self, other: Tally) -> None:
        """Count what another one has counted, too."""
        self.completed += other.completed
        self.failed += other.failed
        self.dead += other.dead
        self.milliseconds += other.milliseconds
        self.lags.update(other.lags)


def lag_bucket(lag: timedelta) -> int:
    """The number of the bucket that a lag falls into: 0 below a millisecond."""
    milliseconds = lag / _MILLISECOND
    if milliseconds < 1:
        return 0
    return min(1 + int(_PER_DOUBLING * math.log2(milliseconds)), _LAST)


def percentile(lags: Mapping[int, int], share: float) -> timedelta | None:
    """The lag that a share (0 … 1) of the attempts did not exceed, within 19 %.

    None: there were no attempts.
    """
    rank = math.ceil(share * sum(lags.values()))
    for bucket in sorted(lags):
        rank -= lags[bucket]
        if rank <= 0:
            # The geometric middle of its bounds.
            middle = 2 ** ((bucket - 0.5) / _PER_DOUBLING) if bucket else 0
            return timedelta(milliseconds=middle)
    return None


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is counted together."""

    resolution: Resolution
    at: datetime
    """When it began."""
    job_type: str
    tenant_id: str | None
    """None: all tenants."""


class Ledger:
    """What one process has counted and not yet stored. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[datetime, str, str], Tally] = {}

    def note(self, endings: Iterable[tuple[Job, Finish]]) -> None:
        """Count attempts whose ends are stored."""
        with self._lock:
            for job, finish in endings:
                minute = finish.attempt.finished_at.replace(second=0, microsecond=0)
                key = (minute, job.job_type, job.tenant_id)
                tally = self._counts.get(key)
                if tally is None:
                    tally = self._counts[key] = Tally()
                tally.note(job, finish)

    def take(self) -> dict[Stretch, Tally]:
        """What was counted since the last call, once for each document that it belongs to."""
        with self._lock:
            counts, self._counts = self._counts, {}
        stretches: dict[Stretch, Tally] = {}
        for (minute, job_type, tenant_id), tally in counts.items():
            for resolution in Resolution:
                at = resolution.start_of(minute)
                for whose in (tenant_id, None):
                    stretch = Stretch(resolution, at, job_type, whose)
                    stretches.setdefault(stretch, Tally()).add(tally)
        return stretches
