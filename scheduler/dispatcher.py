"""Moves due jobs to queued and wakes their executors, in batches."""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.broker.publisher import Publisher
from jobs.errors import StoreUnavailable
from jobs.lifecycle import SHARDS
from jobs.logs import events
from jobs.messages import dispatch_message
from jobs.repository import Repository
from jobs.repository.dispatch import DueJob
from jobs.repository.nodes import Node
from jobs.tracing import spans, tracer
from scheduler.credit import credits, share
from scheduler.metrics import CLAIMED, DISPATCH_ERRORS, DISPATCH_LAG_SECONDS

logger = logging.getLogger(__name__)

# Executors report every 2 s.
_EXECUTOR_SILENCE = timedelta(seconds=10)
_EXECUTORS_KEPT_SECONDS = 0.1
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What one step did.

    `fill`: what was dispatched, as a share of what could be if all executors were empty.
    `is_full`: due jobs are left because executors are full; look again soon.
    `has_more`: due jobs are left that could be dispatched at once.
    """

    count: int = 0
    fill: float = 0.0
    is_full: bool = False
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class _Pause:
    seconds: float
    until: float
    """On the monotonic clock."""


class Dispatcher:
    """The claim-and-publish step."""

    def __init__(
        self,
        repository: Repository,
        publisher: Publisher,
        *,
        job_types: Iterable[str],
        batch: int,
    ) -> None:
        """A dispatcher.

        Args:
            repository: where the jobs are.
            publisher: where the wake-ups go.
            job_types: the types that have a handler; those of live executors are added.
            batch: jobs in one step, at most.
        """
        self._repository = repository
        self._publisher = publisher
        self._job_types = frozenset(job_types)
        self._batch = batch
        self._executors: list[Node] = []
        self._executors_read_at = float("-inf")
        self._pauses: dict[str, _Pause] = {}
        self._are_traced = True

    @property
    def job_types(self) -> frozenset[str]:
        """Every type that is looked at."""
        return self._job_types.union(*(node.job_types for node in self._executors))

    @property
    def open_types(self) -> frozenset[str]:
        """The types whose messages Kafka takes, as far as is known. The others stay pending."""
        now = time.monotonic()
        paused = {job_type for job_type, pause in self._pauses.items() if now < pause.until}
        return self.job_types - paused

    def step(
        self,
        now: datetime,
        only: Collection[str] | None = None,
        shards: Collection[int] | None = None,
    ) -> Dispatched:
        """Dispatch what is due and what executors can take.

        Args:
            now: aware UTC.
            only: look at these types; None: at all.
            shards: look at these, others look at the rest, and each takes its share of what
                executors can take. None: at all.
        """
        self._read_executors(now)
        job_types = self.open_types if only is None else self.open_types.intersection(only)
        portion = 1.0 if shards is None else len(shards) / SHARDS
        if not job_types or not portion:
            return Dispatched()
        in_flight = self._repository.dispatch.in_flight()
        groups, credit = credits(job_types, self._executors, in_flight, portion)
        due = {
            job_type: self._repository.dispatch.due(
                # One more than can be taken tells whether anything is left.
                job_type,
                now=now,
                limit=min(credit[job_type], self._batch) + 1,
                shards=shards,
            )
            for job_type in credit
        }
        wanted = {t: min(len(jobs), credit[t]) for t, jobs in due.items() if jobs}
        granted = share(wanted, groups, self._batch)
        chosen = [job for t, count in granted.items() for job in due[t][:count]]
        is_full = any(len(jobs) > credit[t] for t, jobs in due.items())
        left = any(len(due[t]) > count and credit[t] > count for t, count in granted.items())
        if not chosen:
            return Dispatched(is_full=is_full)
        count = self._send(chosen, now)
        capacity = portion * sum(node.capacity for node in self._executors)
        return Dispatched(
            count,
            fill=count / max(capacity, 1),
            is_full=is_full,
            has_more=left,
        )

    def _read_executors(self, now: datetime) -> None:
        if time.monotonic() - self._executors_read_at >= _EXECUTORS_KEPT_SECONDS:
            self._executors = self._repository.nodes.live(
                role="executor", seen_since=now - _EXECUTOR_SILENCE
            )
            self._executors_read_at = time.monotonic()

    def _send(self, jobs: Sequence[DueJob], now: datetime) -> int:
        claim_id, begun = secrets.token_hex(8), time.monotonic()
        moved = self._repository.dispatch.queue(
            [job.id for job in jobs], claim_id=claim_id, now=now
        )
        ours = [job for job in jobs if job.id in moved]
        failed = self._publisher.publish([dispatch_message(job) for job in ours])
        self._note_failures({ours[place].job_type for place in failed}, ours)
        took = timedelta(seconds=time.monotonic() - begun)
        if failed:
            self._take_back([ours[place] for place in failed], claim_id, now)
        if logger.isEnabledFor(logging.DEBUG):
            ids = [str(job.id) for job in ours]
            requests = sorted({job.request_id for job in ours if job.request_id is not None})
            extra = events.JOBS_QUEUED(count=len(ids), job_ids=ids, request_ids=requests)
            logger.debug("queued %d jobs", len(ids), extra=extra)
        for job_type, count in Counter(job.job_type for job in ours).items():
            CLAIMED.labels(job_type).inc(count)
        for job in ours:
            lag = (now - job.ready_at).total_seconds()
            DISPATCH_LAG_SECONDS.labels(job.job_type).observe(lag)
        sent = [job for place, job in enumerate(ours) if place not in failed]
        if sent and tracer.current() is not None:
            self._trace(sent, now, took)
        return len(ours) - len(failed)

    def _trace(self, jobs: Sequence[DueJob], now: datetime, took: timedelta) -> None:
        # Read apart, and only where somebody wants traces: the index that dispatching reads has no
        # room for them.
        try:
            traced = self._repository.dispatch.traceparents([job.id for job in jobs])
        except StoreUnavailable as exc:
            # The jobs are on their way: what only tells of them must not fail the step.
            if self._are_traced:
                extra = events.SPANS_LOST(error=exc)
                logger.warning("dispatches are not traced, for now: %s", exc, extra=extra)
            self._are_traced = False
            return
        self._are_traced = True
        spans.dispatched(
            [
                spans.Dispatch(job.id, job.job_type, job.ready_at, now, traced[job.id])
                for job in jobs
                if job.id in traced
            ],
            took,
        )

    def _note_failures(self, failing: Collection[str], sent: Sequence[DueJob]) -> None:
        """Leave types alone for a growing while whose messages did not arrive.

        By type: a topic that is missing must not hold up the others.
        """
        for job_type in {job.job_type for job in sent}:
            if job_type in failing:
                before = self._pauses.get(job_type)
                seconds = min(before.seconds * 2, _LONGEST_PAUSE) if before else _FIRST_PAUSE
                self._pauses[job_type] = _Pause(seconds, time.monotonic() + seconds)
            else:
                self._pauses.pop(job_type, None)

    def _take_back(self, jobs: Sequence[DueJob], claim_id: str, now: datetime) -> None:
        DISPATCH_ERRORS.inc(len(jobs))
        released = self._repository.dispatch.release(
            [job.id for job in jobs], claim_id=claim_id, now=now
        )
        logger.warning(
            "Kafka did not take %d of the messages; %d jobs are pending again: %s."
            " Check KAFKA_BROKERS and the topics (manage.py migrate).",
            len(jobs),
            released,
            ", ".join(sorted({job.job_type for job in jobs})),
            extra=events.DISPATCH_UNCONFIRMED(count=len(jobs), released=released),
        )
