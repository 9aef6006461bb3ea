"""Connections of deliveries: kept and used again, bounded for each host, never left behind."""

from __future__ import annotations

import gc
import random
import socket
import time
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from tests.deliveries import attempts, codes, http_job
from tests.targets import Arrived, Behave, Target, answer, hangs_up_after, sends
from tests.waiting import wait_for

StartTarget = Callable[[Behave], Target]


def test_what_is_longer_than_it_said_is_no_answer_to_the_next_request(
    start_target: StartTarget,
) -> None:
    def behave(connection: socket.socket, request: Arrived) -> None:
        lie = answer(410) if len(target.requests) == 1 else b""
        connection.sendall(answer(200) + lie)

    target = start_target(behave)

    results = attempts(http_job(target.url), http_job(target.url))

    assert codes(results) == [200, 200]
    assert target.connections == 2


def test_what_was_read_together_with_an_answer_is_no_answer_to_the_next_request(
    start_target: StartTarget,
) -> None:
    """64 KiB are asked for at once, more is read; the answer ends just there."""
    surplus = answer(410)
    full = answer(200, b"x" * (1 << 16))
    full = answer(200, b"x" * (2 * (1 << 16) - len(full)))
    assert len(full) == 1 << 16

    def behave(connection: socket.socket, request: Arrived) -> None:
        connection.sendall(full + (surplus if len(target.requests) == 1 else b""))

    target = start_target(behave)

    assert codes(attempts(*[http_job(target.url) for _ in range(2)])) == [200, 200]


def test_a_kept_connection_is_used_again(start_target: StartTarget) -> None:
    target = start_target(sends(answer(200, b"ok")))

    attempts(*[http_job(target.url) for _ in range(5)])

    assert len(target.requests) == 5
    assert target.connections == 1


def test_a_kept_connection_that_the_server_closed_costs_no_attempt(
    start_target: StartTarget,
) -> None:
    """It closes right after its answer, without having said so."""
    target = start_target(hangs_up_after(answer(200)))

    jobs = [http_job(target.url) for _ in range(5)]

    results = attempts(*jobs)

    assert codes(results) == [200] * 5
    # One that was on its way as the server closed comes twice.
    sent = {request.headers["idempotency-key"] for request in target.requests}
    assert sent == {str(job.id) for job in jobs}


def test_a_kept_connection_that_breaks_at_the_next_request_costs_no_attempt(
    start_target: StartTarget,
) -> None:
    """The server closes while the request is under way: it is sent again, on a new connection."""

    def behave(connection: socket.socket, _: Arrived) -> None:
        if len(target.requests) == 2:
            connection.shutdown(socket.SHUT_RDWR)
        else:
            connection.sendall(answer(200))

    target = start_target(behave)

    results = attempts(http_job(target.url), http_job(target.url, payload='{"n":2}'))

    assert codes(results) == [200, 200]
    assert [request.body for request in target.requests] == [b"{}", b'{"n":2}', b'{"n":2}']


def test_what_is_kept_is_closed_after_a_while(start_target: StartTarget) -> None:
    target = start_target(sends(answer(200)))

    attempts(
        http_job(target.url), http_job(target.url), pause=0.3, keep_alive=timedelta(seconds=0.1)
    )

    assert target.connections == 2


def test_no_more_connections_to_a_host_than_allowed(start_target: StartTarget) -> None:
    def behave(connection: socket.socket, _: Arrived) -> None:
        time.sleep(0.05)
        connection.sendall(answer(200))

    target = start_target(behave)

    results = attempts(*[http_job(target.url) for _ in range(40)], at_once=True, per_host=4)

    assert codes(results) == [200] * 40
    assert target.most_open == 4


def test_who_finds_no_free_connection_comes_again_without_an_attempt_used_up(
    start_target: StartTarget,
) -> None:
    def behave(connection: socket.socket, _: Arrived) -> None:
        time.sleep(1)
        connection.sendall(answer(200))

    target = start_target(behave)

    results = attempts(
        http_job(target.url),
        http_job(target.url),
        at_once=True,
        per_host=1,
        patience=timedelta(seconds=0.1),
    )

    assert sorted(type(each).__name__ for each in results) == ["Delivered", "Snooze"]
    assert len(target.requests) == 1


def test_attempts_that_are_broken_off_take_no_connection_along(start_target: StartTarget) -> None:
    """At whatever moment: while they wait, connect, send or read."""
    chance = random.Random(7)

    def behave(connection: socket.socket, _: Arrived) -> None:
        time.sleep(chance.choice([0, 0.01]))
        connection.sendall(answer(200, b"ok", Connection=chance.choice(["close", "keep-alive"])))

    target = start_target(behave)

    # What is forgotten is closed by Python, with a warning.
    with warnings.catch_warnings(record=True) as forgotten:
        warnings.simplefilter("always", ResourceWarning)
        results = attempts(
            *[http_job(target.url) for _ in range(500)],
            at_once=True,
            per_host=8,
            patience=timedelta(minutes=1),
            cut=lambda: chance.choice([None, chance.uniform(0, 0.5)]),
        )
        gc.collect()

    assert not [each.message for each in forgotten if "transport" in str(each.message)]
    kinds = Counter(type(result).__name__ for result in results)
    assert kinds.keys() == {"Delivered", "TimeoutError"}
    wait_for(lambda: target.open == 0)
