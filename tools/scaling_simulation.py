"""What scales executors, and how well: `python -m tools.scaling_simulation --seed 1`.

Prints tables in Markdown, the same for the same seed; docs/scaling.md shows them.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator
from functools import cache
from typing import Final

from tools.fanout_simulation import head
from tools.scaling_model import Load, Plant, Result, Signals, Simulation

HOUR: Final = 3600.0
LAG: Final = 1e9
"""As in the manifests: any lag wakes, none asks for a second executor."""
CHOICES: Final = {
    "lag": Signals(lag=100),
    "lag, due": Signals(lag=LAG, due=500),
    "lag, due, busy": Signals(lag=LAG, due=500, busy=12),
}
"""Triggers of a ScaledObject. The first is KEDA's usual way, with FLOOR as the threshold."""


def burst(rng: random.Random) -> Load:
    """Many at the same moment, after an hour of nothing."""
    return Load([HOUR] * 20_000, handler=1.0, horizon=2 * HOUR)


def steady(rng: random.Random) -> Load:
    """What three executors do, for two hours; then nothing."""
    due = sorted(rng.uniform(0, 2 * HOUR) for _ in range(round(10 * 2 * HOUR)))
    return Load(due, handler=4.0, horizon=3 * HOUR)


def wave(rng: random.Random) -> Load:
    """From nothing to 20 a second and back, in four hours: a day in a sixth of the time."""
    length = 4 * HOUR
    due = []
    at = 0.0
    while at < length:
        at += rng.expovariate(20)
        if rng.random() < (1 - math.cos(2 * math.pi * at / length)) / 2:
            due.append(at)
    return Load(due, handler=4.0, horizon=length + HOUR)


def slow(rng: random.Random) -> Load:
    """A few that take ten minutes, longer than KEDA's cooldown."""
    return Load([60.0] * 16, handler=600.0, horizon=4 * HOUR)


LOADS: Final = {
    "burst: 20,000 jobs of 1 s": burst,
    "steady: 10 jobs/s of 4 s": steady,
    "wave: 0 to 20 jobs/s of 4 s": wave,
    "slow: 16 jobs of 10 minutes": slow,
}


@cache
def a_run(triggers: str, load: str, seed: int) -> Result:
    """One load of `LOADS`, scaled by one choice of `CHOICES`."""
    rng = random.Random(seed)
    return Simulation(Plant(), CHOICES[triggers], LOADS[load](rng), rng).run()


def row(name: str, load: Load, result: Result) -> str:
    """One line of a table."""
    lags = sorted(result.lags)
    first = load.due[0]
    cells = (
        name,
        f"{result.peak:,}",
        f"{(result.last_end - first) / 60:,.0f} min"
        if result.done == len(load.due)
        else f"never: {result.done:,} of {len(load.due):,}",
        f"{lags[len(lags) // 2]:,.1f} / {lags[math.ceil(len(lags) * 0.99) - 1]:,.0f} s",
        str(result.most),
        f"{result.pod_seconds / 3600:,.2f}",
        str(result.reversals),
        str(result.interrupted),
    )
    return f"| {' | '.join(cells)} |"


def report(seed: int) -> Iterator[str]:
    """Everything, line by line."""
    for title, make in LOADS.items():
        yield f"{title[0].upper()}{title[1:]}\n"
        yield head(
            *("triggers", "backlog, peak", "all done after", "start lag, p50 / p99"),
            *("executors, peak", "executor hours", "back and forth", "interrupted"),
        )
        load = make(random.Random(seed))
        for name in CHOICES:
            yield row(name, load, a_run(name, title, seed))
        yield ""


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the random moments and durations")
    print("\n".join(report(parser.parse_args().seed)))


if __name__ == "__main__":
    main()
