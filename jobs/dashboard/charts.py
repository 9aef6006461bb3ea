"""Charts as bars, laid out by the server: a template only writes down where each stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from jobs.statistics import Resolution, Tally

WIDTH: Final = 960
HEIGHT: Final = 160


@dataclass(frozen=True, slots=True)
class Bar:
    """The attempts that ended in one stretch of time, in pixels; failures stand on top."""

    since: datetime
    until: datetime
    completed: int
    failed: int
    x: float
    width: float
    good_y: float
    good_height: float
    bad_y: float
    bad_height: float


@dataclass(frozen=True, slots=True)
class Chart:
    """What ended per minute, over a range of time."""

    bars: Sequence[Bar]
    highest: float
    """Attempts per minute at the top of the axis; the line in the middle is half of it."""
    since: datetime
    until: datetime
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def half(self) -> float:
        return self.highest / 2

    @property
    def lines(self) -> Sequence[int]:
        """Where the lines of the scale stand: its top, its middle, its bottom."""
        return (0, self.height // 2, self.height)


def chart_of(
    tallies: Mapping[datetime, Tally], resolution: Resolution, *, since: datetime, now: datetime
) -> Chart:
    """Draw one bar for each stretch in which something ended.

    Args:
        tallies: by the beginning of the stretch.
        resolution: how long a stretch is.
        since: the beginning of the first one.
        now: it lies in the last one.
    """
    minutes = resolution.step / timedelta(minutes=1)
    until = resolution.start_of(now) + resolution.step
    shown = {at: tally for at, tally in tallies.items() if since <= at < until and tally.ended}
    most = max((tally.ended for tally in shown.values()), default=0)
    slot = WIDTH * (resolution.step / (until - since))
    bars = []
    for at, tally in sorted(shown.items()):
        good, bad = (HEIGHT * count / most for count in (tally.completed, tally.failed))
        x = (at - since) / resolution.step * slot
        bars.append(
            Bar(
                at,
                at + resolution.step,
                tally.completed,
                tally.failed,
                *(round(each, 2) for each in (x, slot * 0.85, HEIGHT - good, good)),
                *(round(each, 2) for each in (HEIGHT - good - bad, bad)),
            )
        )
    return Chart(bars, most / minutes, since, until)
