"""How late jobs are dispatched, by load and workers: `python -m tools.fanout_simulation --seed 1`.

Prints tables in Markdown, the same for the same seed; docs/scaling.md shows them.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tools.fanout_model import Load, Plant, Simulation, burst, steady

WORKERS: Final = (1, 2, 4, 8)
SECONDS: Final = 1.0
"""Of steady load."""
LOADS: Final = {1: (0.1, 0.4, 0.8, 1.2, 1.6), 4: (1.6, 3.2, 4.8)}
"""By MongoDB shards: fractions of what one worker dispatches from one mongod."""
BURST: Final = 50_000
RATE_WITH_KILL: Final = 4000
KILL_AT: Final = 3.0
LENGTH_WITH_KILL: Final = 15.0
_LOAD_OF_EXECUTOR: Final = 2 / 3


def spread(lags: Sequence[float]) -> str:
    """p50 / p95 / p99 / max in milliseconds."""
    ranks = (math.ceil(len(lags) * part) - 1 for part in (0.5, 0.95, 0.99, 1))
    return " / ".join(f"{1000 * lags[rank]:,.0f}" for rank in ranks)


def plant_for(rate: float, *, workers: int, mongods: int) -> Plant:
    """With so many executors that two thirds of what they can do are asked of them."""
    plant = Plant(workers=workers, mongods=mongods)
    executors = math.ceil(rate / plant.executor_rate / _LOAD_OF_EXECUTOR)
    return replace(plant, executors=executors)


def speed_of_one() -> float:
    """Jobs per second of one worker that finds full batches on one mongod, with none in flight."""
    plant = Plant()
    costs, batch = plant.costs, plant.batch
    each = costs.worker_job + costs.store_key + costs.store_move
    return batch / (costs.worker_step + costs.store_step + batch * each)


def head(*columns: str) -> str:
    """The first two lines of a table."""
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def steady_loads(mongods: int, seed: int) -> Iterator[str]:
    """Lag at random moments of a steady load."""
    yield head("load", "jobs/s", *(f"{n} worker{'s' * (n > 1)}" for n in WORKERS))
    for part in LOADS[mongods]:
        rate = part * speed_of_one()
        load = steady(rate, SECONDS, random.Random(seed))
        cells = [_lag(plant_for(rate, workers=n, mongods=mongods), load) for n in WORKERS]
        yield f"| {part:.1f} | {rate:,.0f} | {' | '.join(cells)} |"


def bursts(seed: int) -> Iterator[str]:
    """Lag of many jobs that are due at the same moment."""
    yield head("MongoDB shards", *(f"{n} worker{'s' * (n > 1)}" for n in WORKERS))
    load = burst(BURST, random.Random(seed))
    for mongods in LOADS:
        plants = [Plant(workers=n, mongods=mongods, executors=16) for n in WORKERS]
        yield f"| {mongods} | {' | '.join(_lag(plant, load) for plant in plants)} |"


def kill(seed: int) -> Iterator[str]:
    """Lag when one of four workers is killed."""
    load = steady(RATE_WITH_KILL, LENGTH_WITH_KILL, random.Random(seed))
    plant = plant_for(RATE_WITH_KILL, workers=4, mongods=1)
    result = Simulation(plant, load).run(kill_at=KILL_AT)
    lost = frozenset(result.unpublished)
    its = {job for job, shard in enumerate(load.shards) if shard in result.orphaned}
    groups = {
        "of the other three workers": frozenset(range(len(load.due))) - its - lost,
        "of the killed worker": its - lost,
        "that it had queued and not published": lost,
    }
    yield head("jobs", "number", "lag")
    for name, jobs in groups.items():
        lags = result.lags(jobs)
        yield f"| {name} | {len(lags):,} | {spread(lags) if lags else '–'} |"


def alone() -> Iterator[str]:
    """One worker with a backlog and no executors, as `tools.dispatch_costs` has it drained."""
    yield head("backlog", "CLAIM_BATCH", "jobs/s")
    for jobs, batch in ((20_000, 1000), (50_000, 1000), (20_000, 100)):
        result = Simulation(Plant(batch=batch, executors=None), burst(jobs, random.Random(0))).run()
        yield f"| {jobs:,} | {batch:,} | {jobs / result.seconds:,.0f} |"


def report(seed: int) -> Iterator[str]:
    """Everything, line by line."""
    cores = Plant().cores
    yield "Lag in ms: p50 / p95 / p99 / max."
    yield f"Load 1.0: {speed_of_one():,.0f} jobs/s, what one worker dispatches from one mongod.\n"
    for mongods in LOADS:
        shards = f"{mongods} MongoDB shard{'s' * (mongods > 1)}"
        yield f"Steady load for {SECONDS:.0f} s, {shards} of {cores} cores:\n"
        yield from steady_loads(mongods, seed)
        yield ""
    yield f"{BURST:,} jobs due at the full minute, 16 executors:\n"
    yield from bursts(seed)
    yield f"\nOne of 4 workers killed after {KILL_AT:.0f} s of {RATE_WITH_KILL:,} jobs/s:\n"
    yield from kill(seed)
    yield "\nOne worker alone, no executors:\n"
    yield from alone()


def _lag(plant: Plant, load: Load) -> str:
    return spread(Simulation(plant, load).run().lags())


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the random moments and shards")
    print("\n".join(report(parser.parse_args().seed)))


if __name__ == "__main__":
    main()
