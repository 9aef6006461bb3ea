"""The last runs of a template as a strip of bars: one glance tells how they ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jobs.dashboard.page import utc
from jobs.lifecycle import Status
from jobs.repository.template_lists import RunMark

_PITCH: Final = 7
_SHOWN: Final[Mapping[str, str]] = {Status.DLQ: "dead letter"}
# Top and height of a bar, of 20: how a run ended shows without colours too.
_SHAPES: Final[Mapping[str, tuple[str, int, int]]] = {
    Status.COMPLETED: ("good", 4, 12),
    Status.DLQ: ("bad", 0, 20),
    Status.CANCELLED: ("idle", 9, 2),
}
_GOING_ON: Final = ("busy", 7, 6)


@dataclass(frozen=True, slots=True)
class Bar:
    """One run."""

    x: int
    y: int
    height: int
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Strip:
    """The last runs, the newest to the right."""

    bars: Sequence[Bar]
    label: str
    """The same in words."""


def strip_of(marks: Sequence[RunMark]) -> Strip:
    """The strip of these runs, which come newest first."""
    bars = []
    for place, mark in enumerate(reversed(marks)):
        kind, top, height = _SHAPES.get(mark.status, _GOING_ON)
        shown = _SHOWN.get(mark.status, mark.status)
        title = f"{shown}, {utc(mark.at)}" if mark.at else shown
        bars.append(Bar(place * _PITCH, top, height, kind, title))
    counts = Counter(_SHOWN.get(mark.status, mark.status) for mark in marks)
    told = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    return Strip(bars, f"The last {len(marks)} runs: {told}" if marks else "No runs yet")
