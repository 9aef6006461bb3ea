"""The jobs this executor holds, from claim to durable end."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from bson import ObjectId

from executor.allowance import Allowance
from executor.metrics import HELD
from jobs import attempts
from jobs.executions import execution_id
from jobs.lifecycle import Finish, Job, Outcome


@dataclass(slots=True, eq=False)
class Held:
    """One claimed job. Its end is decided once: by its handler, its deadline, or its loss."""

    job: Job
    started_at: datetime | None = None
    """When it became running, aware UTC."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    working_since: float | None = None
    """Monotonic seconds when a worker took it up; never set after the end was decided."""
    is_settled: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def claim(self) -> tuple[ObjectId, str]:
        return self.job.id, self.job.claim_id or ""

    @property
    def execution_id(self) -> str:
        return execution_id(*self.claim)

    def is_overdue(self, at: float) -> bool:
        """Whether it has run for longer than its `timeoutSeconds`.

        Args:
            at: monotonic seconds.
        """
        seconds, since = self.job.timeout_seconds, self.working_since
        return seconds is not None and since is not None and at - since >= seconds

    def failed(self, error: str, outcome: Outcome, now: datetime) -> Finish:
        """The end of an attempt whose failure its handler did not decide.

        Args:
            error: what an operator reads.
            outcome: failed or timed out.
            now: aware UTC.
        """
        return attempts.failed(
            self.job,
            error=error,
            outcome=outcome,
            started_at=self.started_at or now,
            finished_at=now,
            random=random.random(),  # noqa: S311
        )

    def begin(self) -> bool:
        """Let a worker take it up. False when its end is decided already."""
        with self._lock:
            if not self.is_settled:
                self.working_since = time.monotonic()
            return not self.is_settled

    def settle(self, *, unless_working: bool = False) -> bool:
        """Decide the end. True for the first caller only.

        Args:
            unless_working: leave it alone when a worker has taken it up.
        """
        with self._lock:
            if self.is_settled or (unless_working and self.working_since is not None):
                return False
            self.is_settled = True
            return True


class Holdings:
    """All of them. Each takes one permit of `room` until it is released."""

    def __init__(self, room: Allowance, pool: str) -> None:
        self.room = room
        self._shown = HELD.labels(pool)
        self._by_id: dict[ObjectId, Held] = {}
        self._lock = threading.Lock()
        self._emptied = threading.Condition(self._lock)

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, jobs: Iterable[Job]) -> list[Held]:
        """Hold freshly claimed jobs; their permits were taken before."""
        added = [Held(job, job.started_at) for job in jobs]
        with self._lock:
            self._by_id.update((held.job.id, held) for held in added)
        self._shown.set(len(self._by_id))
        return added

    def release(self, helds: Iterable[Held]) -> None:
        """Hold these no longer: their end is durable, or they are lost."""
        released = 0
        with self._lock:
            for held in helds:
                # A job that was lost may have been claimed again by this very executor.
                if self._by_id.get(held.job.id) is held:
                    del self._by_id[held.job.id]
                released += 1
            if not self._by_id:
                self._emptied.notify_all()
        self._shown.set(len(self._by_id))
        self.room.give(released)

    def all(self) -> list[Held]:
        """Every held job."""
        with self._lock:
            return list(self._by_id.values())

    def count_working(self) -> Counter[str]:
        """How many of each job type a worker has taken up, and whose end is not decided."""
        return Counter(
            held.job.job_type
            for held in self.all()
            if held.working_since is not None and not held.is_settled
        )

    def wait_empty(self, timeout: float) -> bool:
        """Whether nothing is held any more, waiting up to `timeout` seconds for it."""
        with self._lock:
            return self._emptied.wait_for(lambda: not self._by_id, timeout)
