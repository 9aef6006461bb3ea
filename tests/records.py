"""What the handler `test-record` wrote down: every run of every job, by the machine's clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Run:
    """One call of the handler. `ended_at` and `how` are None where it never came back."""

    attempt: int
    pid: int
    started_at: datetime
    ended_at: datetime | None = None
    how: str | None = None


def read_runs(file: Path) -> Mapping[str, list[Run]]:
    """The runs by job id, in the order of their starts."""
    runs: dict[str, list[Run]] = defaultdict(list)
    text = file.read_text() if file.exists() else ""
    # Handlers may be at work: what has no end yet is being written.
    for line in text[: text.rfind("\n") + 1].splitlines():
        job_id, attempt, pid, at, what = line.split()
        instant = datetime.fromtimestamp(float(at), UTC)
        started = Run(int(attempt), int(pid), instant)
        if what == "start":
            runs[job_id].append(started)
            continue
        [place] = [
            place
            for place, run in enumerate(runs[job_id])
            if (run.attempt, run.pid, run.how) == (started.attempt, started.pid, None)
        ]
        begun = runs[job_id][place]
        runs[job_id][place] = Run(begun.attempt, begun.pid, begun.started_at, instant, what)
    return runs


def overlaps(runs: Iterable[Run], died_at: Mapping[int, datetime]) -> bool:
    """Whether two runs of one job went on at the same time.

    Args:
        runs: of one job.
        died_at: when a process was killed, by its id: the end of what it was running.
    """
    spans = sorted((run.started_at, run.ended_at or died_at[run.pid]) for run in runs)
    return any(later < end for (_, end), (later, _) in pairwise(spans))
