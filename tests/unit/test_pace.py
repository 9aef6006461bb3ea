"""How much an executor holds follows how fast its handlers are."""

from __future__ import annotations

import pytest

from executor.pace import Pace


def after(seconds: float, *, slots: int = 16, most_prefetch: int = 2000) -> Pace:
    pace = Pace(slots=slots, most_prefetch=most_prefetch)
    pace.note(seconds)
    return pace


def test_before_the_first_handler_ended_as_many_are_held_again_as_there_are_slots() -> None:
    pace = Pace(slots=16, most_prefetch=2000)

    assert pace.prefetch == 16
    assert pace.start_ahead == 0


@pytest.mark.parametrize(
    ("seconds", "prefetch"), [(0.001, 2000), (0.1, 80), (1, 8), (10, 4), (3600, 4)]
)
def test_half_a_second_of_work_is_held(seconds: float, prefetch: int) -> None:
    assert after(seconds).prefetch == prefetch


def test_one_slot_holds_one_more_job_however_slow_it_is() -> None:
    assert after(3600, slots=1).prefetch == 1


def test_prefetch_has_a_limit_and_can_be_switched_off() -> None:
    assert after(0.0, most_prefetch=100).prefetch == 100
    assert after(0.0, most_prefetch=0).prefetch == 0
    assert Pace(slots=16, most_prefetch=0).prefetch == 0


@pytest.mark.parametrize(("seconds", "ahead"), [(0.0, 500), (0.001, 160), (0.1, 1), (1, 0)])
def test_only_fast_handlers_have_jobs_started_ahead(seconds: float, ahead: int) -> None:
    assert after(seconds).start_ahead == ahead


def test_handlers_that_become_slow_are_noticed() -> None:
    pace = after(0.001)

    for _ in range(16):
        pace.note(10.0)

    assert pace.start_ahead == 0
    assert pace.prefetch == 4
