"""Permits: never more out than the limit, whoever asks and however it changes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from executor.allowance import Allowance


@pytest.mark.parametrize(("wanted", "granted"), [(1, 1), (3, 3), (4, 3)])
def test_as_many_are_taken_as_there_are(wanted: int, granted: int) -> None:
    allowance = Allowance(3)

    assert allowance.take(wanted) == granted
    assert allowance.taken == granted


def test_none_is_granted_when_all_are_out() -> None:
    allowance = Allowance(1)
    allowance.take(1)

    assert allowance.take(1) == 0
    assert allowance.take(1, timeout=0.01) == 0


def test_shrinking_takes_nothing_back_and_holds_new_ones_up() -> None:
    allowance = Allowance(4)
    allowance.take(4)
    allowance.limit = 1

    assert allowance.taken == 4
    allowance.give(2)
    assert allowance.take(1) == 0
    allowance.give(2)
    assert allowance.take(2) == 1


@pytest.mark.parametrize("event", ["give", "grow"])
def test_somebody_who_waits_is_woken(event: str) -> None:
    allowance = Allowance(1)
    allowance.take(1)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(allowance.take, 5, timeout=30)
        if event == "give":
            allowance.give()
        else:
            allowance.limit = 2

        assert waiting.result(30) == 1


def test_giving_several_wakes_several() -> None:
    allowance = Allowance(4)
    allowance.take(4)

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(allowance.take, 1, timeout=30) for _ in range(4)]
        allowance.give(4)

        assert [each.result(30) for each in waiting] == [1, 1, 1, 1]


def test_many_threads_never_have_more_than_the_limit() -> None:
    allowance = Allowance(3)
    out = 0
    most = 0
    lock = threading.Lock()

    def take_and_give(_: int) -> None:
        nonlocal out, most
        granted = allowance.take(2, timeout=30)
        with lock:
            out += granted
            most = max(most, out)
        with lock:
            out -= granted
        allowance.give(granted)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(take_and_give, range(2000)))

    assert most <= 3
    assert allowance.taken == 0
