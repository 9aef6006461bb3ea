"""What a load test found, for people and for programs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from jobs.lifecycle import Status
from jobs.load.fates import Fate
from jobs.load.plan import Plan
from jobs.load.sender import Sent

BUSY_CPU_SHARE: Final = 0.9
LATE_MS: Final = 10
REACHED: Final = 0.99
"""Of the rate that was asked for."""
_SHOWN_PROBLEMS: Final = 5


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles of some durations in milliseconds: each is a value that was measured."""

    p50: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, durations: Iterable[float]) -> Spread | None:
        """Of durations in seconds; None without any."""
        ordered = sorted(durations)
        if not ordered:
            return None

        def percentile(share: float) -> float:
            return round(ordered[math.ceil(share * len(ordered)) - 1] * 1000, 1)

        return cls(percentile(0.5), percentile(0.95), percentile(0.99), percentile(1))


@dataclass(frozen=True, slots=True)
class Client:
    """The load test's own part in what it measures."""

    connections: int
    cpu_share: float
    """Of one core, while it submitted."""
    clock_offset: timedelta
    """What was added to its clock to get MongoDB's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings. A spread is None where nothing was measured."""

    plan: Plan
    accepted: int
    problems: Counter[str]
    """Why jobs were not accepted."""
    statuses: Counter[str]
    """Of all jobs that were found at the end."""
    unfinished: int
    lost: int
    """Accepted, and not found at the end."""
    submitted_per_second: float
    finished_per_second: float | None
    """From the first start to the last end."""
    spreads: Mapping[str, Spread | None]
    client: Client
    own_delay: Spread | None
    """Between when a request could have left and when it did."""
    warnings: Sequence[str]

    @classmethod
    def of(
        cls,
        plan: Plan,
        sent: Sequence[Sent],
        fates: Mapping[str, Fate],
        *,
        start: datetime,
        began_at: float,
        client: Client,
    ) -> Report:
        """Work out the findings.

        Args:
            plan: what was to be submitted.
            sent: the requests, at least one.
            fates: the jobs that were found, by key.
            start: the plan's start by the store's clock.
            began_at: the same by the monotonic clock of `sent`.
            client: how this process fared.
        """
        accepted = [number for request in sent for number in request.outcome.accepted]
        stored_after = max(request.answered_at for request in sent) - began_at
        # A rate's last job has its interval too.
        planned = 0.0 if plan.is_backlog else plan.submit_after(plan.jobs).total_seconds()
        per_second = len(accepted) / max(stored_after, planned)
        spreads = dict(_spreads(plan, fates, start))
        if not plan.is_backlog:
            spreads = {"ackMs": Spread.of(request.latency for request in sent)} | spreads
        own_delay = Spread.of(request.own_delay for request in sent)
        return cls(
            plan=plan,
            accepted=len(accepted),
            problems=sum((request.outcome.problems for request in sent), Counter()),
            statuses=Counter(str(fate.status) for fate in fates.values()),
            unfinished=sum(not fate.is_over for fate in fates.values()),
            lost=sum(plan.key(number) not in fates for number in accepted),
            submitted_per_second=per_second,
            finished_per_second=_finished_per_second(fates.values()),
            spreads=spreads,
            client=client,
            own_delay=own_delay,
            warnings=list(_warnings(plan, sent, client, own_delay, per_second, stored_after)),
        )

    @property
    def is_good(self) -> bool:
        """Whether every job was accepted and is over."""
        return not (self.problems or self.unfinished or self.lost)

    def as_document(self) -> dict[str, Any]:
        """The findings as JSON has them."""
        plan = self.plan
        return {
            "tenantId": plan.tenant,
            "jobType": plan.job_type,
            "jobs": plan.jobs,
            "rate": plan.rate,
            "dueInSeconds": plan.due_in.total_seconds(),
            "accepted": self.accepted,
            "problems": dict(self.problems.most_common(_SHOWN_PROBLEMS)),
            "completed": self.statuses[Status.COMPLETED],
            "dlq": self.statuses[Status.DLQ],
            "cancelled": self.statuses[Status.CANCELLED],
            "unfinished": self.unfinished,
            "lost": self.lost,
            "submittedPerSecond": round(self.submitted_per_second, 1),
            "finishedPerSecond": self.finished_per_second and round(self.finished_per_second, 1),
            **{name: spread and asdict(spread) for name, spread in self.spreads.items()},
            "client": {
                "connections": self.client.connections,
                "cpuPercent": round(100 * self.client.cpu_share, 1),
                "sendDelayMs": self.own_delay and asdict(self.own_delay),
                "clockOffsetMs": self.client.clock_offset / timedelta(milliseconds=1),
            },
            "warnings": list(self.warnings),
        }

    def as_text(self) -> str:
        """The findings for a person."""
        plan = self.plan
        found = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        finished = self.finished_per_second
        lines = [
            f"submitted  {self.accepted} of {plan.jobs} jobs, {self.submitted_per_second:.1f}/s",
            f"finished   {found or 'none'}" + (f", {finished:.1f}/s" if finished else ""),
            f"unfinished {self.unfinished}, lost {self.lost}",
            f"{'ms':<22}{'p50':>9}{'p95':>9}{'p99':>9}{'max':>9}",
        ]
        for name, spread in self.spreads.items():
            if spread is not None:
                numbers = "".join(f"{value:9.1f}" for value in asdict(spread).values())
                lines.append(f"{_TITLES[name]:<22}{numbers}")
        for problem, count in self.problems.most_common(_SHOWN_PROBLEMS):
            lines.append(f"problem: {count} × {problem}")
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)


_TITLES: Final = {
    "ackMs": "acknowledged",
    "startLagMs": "due → start",
    "createdToStartMs": "created → start",
    "endToEndMs": "due → end",
}


def _spreads(
    plan: Plan, fates: Mapping[str, Fate], start: datetime
) -> Iterator[tuple[str, Spread | None]]:
    lags, waits, ends = [], [], []
    for number in range(plan.jobs):
        fate = fates.get(plan.key(number))
        if fate is None:
            continue
        # Not the job's own scheduledAt: a retry moves it.
        due_at = plan.due_at(number, start)
        if fate.started_at is not None:
            lags.append((fate.started_at - due_at).total_seconds())
            waits.append((fate.started_at - fate.created_at).total_seconds())
        if fate.finished_at is not None:
            ends.append((fate.finished_at - due_at).total_seconds())
    yield "startLagMs", Spread.of(lags)
    if not plan.due_in:
        yield "createdToStartMs", Spread.of(waits)
    yield "endToEndMs", Spread.of(ends)


def _finished_per_second(fates: Iterable[Fate]) -> float | None:
    fates = list(fates)
    starts = [fate.started_at for fate in fates if fate.started_at is not None]
    ends = [fate.finished_at for fate in fates if fate.finished_at is not None]
    if not starts or not ends or max(ends) <= min(starts):
        return None
    return len(ends) / (max(ends) - min(starts)).total_seconds()


def _warnings(
    plan: Plan,
    sent: Sequence[Sent],
    client: Client,
    own_delay: Spread | None,
    per_second: float,
    stored_after: float,
) -> Iterator[str]:
    if client.cpu_share >= BUSY_CPU_SHARE:
        yield (
            f"This client used {client.cpu_share:.0%} of one core while it submitted: it was a"
            " limit itself. Ask for fewer jobs per second, or add clients."
        )
    if not plan.is_backlog and own_delay is not None and own_delay.p99 > LATE_MS:
        yield (
            f"One request in a hundred left {own_delay.p99:.0f} ms late or more because this"
            " machine was busy; the latencies contain that."
        )
    waited = sum(request.had_to_wait for request in sent)
    if not plan.is_backlog and waited:
        yield (
            f"For {waited} of {len(sent)} requests all {client.connections} connections were"
            " busy: they left late, which counts as latency. The API is slower than this rate, or"
            " --connections too low."
        )
    if plan.rate is not None and per_second < REACHED * plan.rate:
        yield f"{per_second:.1f} jobs/s were accepted instead of {plan.rate:g}."
    if plan.is_backlog and stored_after > plan.due_in.total_seconds():
        yield (
            f"The backlog came due {plan.due_in.total_seconds():g} s after the start but was"
            f" stored only after {stored_after:.1f} s, so that it was drained meanwhile. Give a"
            " longer --due-in."
        )
    if client.clock_offset:
        milliseconds = client.clock_offset / timedelta(milliseconds=1)
        yield (
            f"MongoDB's clock is {milliseconds:+.0f} ms from this machine's; the times were"
            " corrected by that."
        )
