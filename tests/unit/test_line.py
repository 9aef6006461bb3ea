"""Who is started next."""

from __future__ import annotations

from executor.held import Held
from executor.line import Line
from tests.builders import a_job


def _held(*job_types: str) -> list[Held]:
    return [Held(a_job(job_type=job_type)) for job_type in job_types]


def test_one_type_is_served_in_the_order_of_arrival() -> None:
    helds = _held("noop", "noop", "noop")
    line = Line()
    line.put(helds)

    assert [*line.take(2), *line.take(2)] == helds
    assert len(line) == 0


def test_a_late_type_does_not_wait_for_all_of_an_early_one() -> None:
    line = Line()
    line.put(_held("slow", "slow", "slow", "slow"))
    line.take(1)
    line.put(_held("noop", "noop"))

    assert [held.job.job_type for held in line.take(9)] == ["slow", "noop", "slow", "noop", "slow"]


def test_a_type_that_ran_out_takes_its_turn_again_when_it_comes_back() -> None:
    line = Line()
    line.put(_held("noop", "slow", "slow"))
    line.take(1)
    line.put(_held("noop"))

    assert [held.job.job_type for held in line.take(3)] == ["slow", "noop", "slow"]


def test_the_end_is_taken_off_the_longest_first() -> None:
    line = Line()
    helds = _held("slow", "noop", "slow", "slow", "slow")
    line.put(helds)

    assert line.take_last(2) == [helds[4], helds[3]]
    assert len(line) == 3
    assert line.take(9) == helds[:3]


def test_a_line_whose_end_was_taken_off_is_used_again() -> None:
    line = Line()
    line.put(_held("noop", "slow"))

    assert len(line.take_last(9)) == 2
    assert line.take(1) == line.take_last(1) == []
    line.put(again := _held("noop"))
    assert line.take(9) == again
