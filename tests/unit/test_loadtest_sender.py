"""The open loop: send times are fixed in advance, and latency counts from them."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

from jobs.load.sender import Outcome, Sender, Sent

NOTHING = Outcome((), Counter())


class Clock:
    """A monotonic clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    def move(self, seconds: float) -> None:
        self.at += seconds


def send_with_one_connection(
    due_times: list[float], *, answer_takes: float, wakes_late_by: float = 0.0
) -> list[Sent]:
    clock = Clock()

    def answer(number: int) -> Outcome:
        clock.move(answer_takes)
        return NOTHING

    sender = Sender(
        answer,
        connections=1,
        now=clock.now,
        sleep=lambda seconds: clock.move(seconds + wakes_late_by),
    )
    return sender.run(due_times, lambda done: None)


def test_requests_leave_at_their_times() -> None:
    sent = send_with_one_connection([100.5, 101.0, 103.0], answer_takes=0.1)

    assert [request.sent_at for request in sent] == pytest.approx([100.5, 101.0, 103.0])
    assert [request.latency for request in sent] == pytest.approx([0.1] * 3)
    assert not any(request.had_to_wait for request in sent)


def test_a_slow_server_shows_as_latency_of_the_requests_behind_it() -> None:
    sent = send_with_one_connection([101, 102, 103], answer_takes=5)

    assert [request.latency for request in sent] == pytest.approx([5, 9, 13])
    assert [request.had_to_wait for request in sent] == [False, True, True]
    assert [request.own_delay for request in sent] == pytest.approx([0, 0, 0])


def test_a_client_that_wakes_late_is_told_apart_from_a_slow_server() -> None:
    sent = send_with_one_connection([101, 102], answer_takes=0.1, wakes_late_by=0.2)

    assert [request.own_delay for request in sent] == pytest.approx([0.2, 0.2])
    assert [request.latency for request in sent] == pytest.approx([0.3, 0.3])
    assert not any(request.had_to_wait for request in sent)


def test_a_request_does_not_wait_for_the_answer_to_another() -> None:
    all_are_on_their_way = threading.Barrier(3)

    def answer(number: int) -> Outcome:
        all_are_on_their_way.wait(timeout=10)
        return Outcome([number], Counter())

    sent = Sender(answer, connections=3).run([time.monotonic()] * 3, lambda done: None)

    assert sorted(number for request in sent for number in request.outcome.accepted) == [0, 1, 2]


def test_each_answer_is_told() -> None:
    told: list[int] = []

    Sender(lambda number: NOTHING, connections=1).run([time.monotonic()] * 3, told.append)

    assert told == [1, 2, 3]


def test_an_error_in_one_thread_ends_the_others_at_once() -> None:
    def fail(number: int) -> Outcome:
        raise RuntimeError("a bug")

    sender = Sender(fail, connections=4)

    with pytest.raises(RuntimeError, match="a bug"):
        sender.run([time.monotonic(), time.monotonic() + 3600], lambda done: None)
