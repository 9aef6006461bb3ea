"""What scales executors: the model keeps its rules, and the manifests' triggers do well in it.

That their real counterparts are so: tests/roles/test_scaling_signals.py (lag, credit, attempts) and
tests/deploy/test_kubernetes_scaling.py (the triggers themselves).
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from scheduler.credit import FLOOR
from tools.scaling_model import Autoscaler, Load, Plant, Result, Signals, Simulation
from tools.scaling_simulation import CHOICES, HOUR, LAG, LOADS, a_run, report

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scaling.md"
BURST, STEADY, WAVE, SLOW = LOADS
ALL = "lag, due, busy"


def run(load: Load, signals: Signals = CHOICES[ALL]) -> Result:
    return Simulation(Plant(), signals, load, random.Random(1)).run()


def counts(result: Result) -> list[int]:
    """How many executors there were, in turn."""
    return [count for _, count in result.replicas]


def test_scaling_page_shows_what_the_simulation_prints() -> None:
    assert "\n".join(report(seed=1)) in PAGE.read_text()


@pytest.mark.parametrize("load", LOADS)
def test_lag_alone_never_asks_for_a_second_executor(load: str) -> None:
    """With KEDA's usual threshold, not only with one that is out of reach."""
    assert CHOICES["lag"].lag == FLOOR
    assert a_run("lag", load, 1).most == 1


def test_the_due_backlog_asks_for_all_executors_and_a_burst_is_drained_soon() -> None:
    alone, together = a_run("lag", BURST, 1), a_run(ALL, BURST, 1)

    assert together.most == CHOICES[ALL].most
    assert together.last_end - HOUR < (alone.last_end - HOUR) / 5


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("load", [STEADY, WAVE])
def test_what_runs_keeps_executors_so_that_their_number_does_not_flap(load: str, seed: int) -> None:
    assert a_run(ALL, load, seed).reversals == 0


def test_the_backlog_alone_flaps_as_it_is_gone_while_executors_are_needed() -> None:
    assert a_run("lag, due", STEADY, 1).reversals > 5


def test_executors_come_from_none_and_go_to_none_and_come_back() -> None:
    load = Load([60.0] * 2000 + [HOUR] * 2000, handler=1.0, horizon=2 * HOUR)

    result = run(load)

    assert result.done == 4000
    assert result.interrupted == 0
    there = "".join("x" if count else " " for count in counts(result))
    assert there[0] == there[-1] == " "
    assert len(there.split()) == 2


def test_a_single_job_wakes_one_executor_which_leaves_after_the_cooldown() -> None:
    result = run(Load([100.0], handler=1.0, horizon=HOUR))

    assert counts(result) == [0, 1, 0]
    (_, _), (woken_at, _), (left_at, _) = result.replicas
    assert 100 <= woken_at <= 100 + CHOICES[ALL].polling
    assert result.lags[0] <= CHOICES[ALL].polling + Plant().start + 1
    assert left_at - woken_at > CHOICES[ALL].cooldown


def test_handlers_longer_than_the_cooldown_are_left_alone_where_what_runs_counts() -> None:
    without, with_busy = a_run("lag, due", SLOW, 1), a_run(ALL, SLOW, 1)

    assert without.interrupted > 100
    assert with_busy.interrupted == 0
    assert with_busy.last_end < without.last_end / 5


@pytest.mark.parametrize("triggers", CHOICES)
def test_every_job_ends_once_or_still_waits(triggers: str) -> None:
    load = Load([10.0 + n / 10 for n in range(5000)], handler=3.0, horizon=2 * HOUR)

    result = run(load, CHOICES[triggers])

    assert result.done == 5000
    assert len(result.lags) == 5000 + result.interrupted


def test_lag_that_grows_while_no_executor_can_start_asks_for_no_second_one() -> None:
    plant = Plant(start=1200)
    load = Load([10.0] * 10, handler=1.0, horizon=HOUR)

    result = Simulation(plant, Signals(lag=LAG), load, random.Random(1)).run()

    assert counts(result)[:2] == [0, 1]
    assert result.most == 1
    assert result.done == 10


def test_scaling_up_is_bounded_and_scaling_down_waits_for_the_stabilization() -> None:
    scaler = Autoscaler(Signals(due=500))

    assert scaler.adjust(0, 1, {"due": 9000}) == 5
    assert scaler.adjust(15, 5, {"due": 9000}) == 10
    assert scaler.adjust(30, 10, {"due": 9000}) == 12
    assert scaler.adjust(45, 12, {"due": 0}) == 12
    assert scaler.adjust(330, 12, {"due": 0}) == 12
    assert scaler.adjust(345, 12, {"due": 0}) == 1


def test_a_difference_within_the_tolerance_changes_nothing() -> None:
    scaler = Autoscaler(Signals(busy=12))

    assert scaler.adjust(0, 4, {"busy": 48 * 1.09}) == 4
    assert scaler.adjust(15, 4, {"busy": 48 * 1.11}) == 5
