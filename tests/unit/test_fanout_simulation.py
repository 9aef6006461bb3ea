"""The model of fan-out: what docs/scaling.md shows is what it says, and it keeps its own rules."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path

import pytest

from tools.fanout_model import Load, Plant, Result, Simulation, burst, steady
from tools.fanout_simulation import WORKERS, plant_for, report, speed_of_one

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scaling.md"
NOISE = 0.005
"""Seconds by which the lag of more workers may be longer: their looks cost mongod something."""


def a_load(rate: float, seconds: float = 1.0, seed: int = 1) -> Load:
    return steady(rate, seconds, random.Random(seed))


def a_run(plant: Plant, load: Load, kill_at: float | None = None) -> Result:
    return Simulation(plant, load).run(kill_at)


def p99(result: Result) -> float:
    lags = result.lags()
    return lags[int(0.99 * len(lags))]


def test_scaling_page_shows_what_the_simulation_prints() -> None:
    assert "\n".join(report(seed=1)) in PAGE.read_text()


def test_the_same_seed_gives_the_same_run_and_another_one_gives_another() -> None:
    first, again, other = (
        a_run(Plant(workers=4), a_load(8000, seed=seed)).sent for seed in (1, 1, 2)
    )

    assert first == again != other


@pytest.mark.parametrize("kill_at", [None, 0.1])
@pytest.mark.parametrize("mongods", [1, 4])
@pytest.mark.parametrize("workers", [2, 4, 8])
def test_every_job_is_dispatched_exactly_once(
    workers: int, mongods: int, kill_at: float | None
) -> None:
    load = burst(10_000, random.Random(3))

    result = a_run(Plant(workers=workers, mongods=mongods), load, kill_at)

    jobs = Counter(chain.from_iterable(jobs for _, jobs in result.sent))
    assert jobs == Counter(range(10_000))
    # In the middle of a step: what was queued then comes later, but comes.
    assert bool(result.unpublished) == (kill_at is not None)


def test_a_worker_dispatches_the_longest_due_first_and_none_before_its_time() -> None:
    load = a_load(20_000)

    result = a_run(Plant(), load)

    assert [job for _, jobs in result.sent for job in jobs] == list(range(20_000))
    assert result.lags()[0] > 0


@pytest.mark.parametrize(("mongods", "part"), [(1, 0.4), (1, 0.8), (4, 1.6), (4, 3.2), (4, 4.8)])
def test_more_workers_never_make_the_lag_longer_while_mongod_has_time(
    mongods: int, part: float
) -> None:
    rate = part * speed_of_one()
    load = a_load(rate)

    lags = [p99(a_run(plant_for(rate, workers=n, mongods=mongods), load)) for n in WORKERS]

    assert all(more <= fewer + NOISE for fewer, more in pairwise(lags))


def test_where_mongod_is_the_limit_more_workers_do_not_help_but_more_mongods_do() -> None:
    rate = 1.5 * speed_of_one()
    load = a_load(rate)

    def lag(workers: int, mongods: int) -> float:
        return p99(a_run(plant_for(rate, workers=workers, mongods=mongods), load))

    assert lag(8, 1) > lag(4, 1)
    assert lag(8, 4) < lag(4, 1) / 5


def test_no_more_is_in_flight_than_executors_can_hold_and_one_for_each_worker() -> None:
    plant = Plant(workers=4, executors=2)

    result = a_run(plant, burst(20_000, random.Random(1)))

    room = 2 * plant.executor_places
    assert 0.9 * room < result.most_in_flight <= room + plant.workers
    assert 20_000 / result.seconds == pytest.approx(2 * plant.executor_rate, rel=0.2)


def test_the_shards_of_a_killed_worker_wait_for_the_session_timeout_and_no_others_do() -> None:
    plant = Plant(workers=4)
    load = a_load(2000, seconds=10)

    result = a_run(plant, load, kill_at=2.0)

    taken_over_at = 2.0 + plant.session_timeout + plant.rebalance
    orphans = [
        (at, job)
        for at, jobs in result.sent
        for job in jobs
        if load.shards[job] in result.orphaned and load.due[job] > 2.0
    ]
    assert len(result.orphaned) == 64
    assert taken_over_at <= orphans[0][0] < taken_over_at + 0.1
    assert orphans[-1][0] < 10.1
    others = [
        at - load.due[job]
        for at, jobs in result.sent
        for job in jobs
        if load.shards[job] not in result.orphaned and load.due[job] < taken_over_at - 0.1
    ]
    assert max(others) < 0.02
