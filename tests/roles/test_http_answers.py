"""What targets may do to a delivery, on real sockets: every answer is judged, none does harm."""

from __future__ import annotations

import gc
import random
import resource
import socket
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from executor.calls import AttemptError
from executor.delivery.answer import EXCERPT_BYTES
from executor.delivery.sender import Delivered
from tests.deliveries import attempt, attempts, http_job
from tests.targets import Arrived, Behave, Target, answer, hangs_up_after, sends
from tests.waiting import wait_for

Start = Callable[[Behave], Target]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a target with this behaviour."""
    started: list[Target] = []

    def start(behave: Behave) -> Target:
        started.append(Target(behave))
        return started[-1]

    yield start
    for target in started:
        target.close()


def failed(result: Delivered | Exception) -> AttemptError:
    assert isinstance(result, AttemptError), result
    return result


def done(result: Delivered | Exception) -> Delivered:
    assert isinstance(result, Delivered), result
    return result


def codes(results: Iterable[Delivered | Exception]) -> list[int | None]:
    """The answers of attempts that succeeded."""
    return [response.code if (response := done(each).response) else None for each in results]


DONE = (200, 201, 202, 204, 206, 299)
RETRIED = (408, 425, 429, 500, 502, 503, 504, 599)
TERMINAL = (300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 409, 410, 418, 422, 499)


def test_every_status_has_its_meaning(start: Start) -> None:
    statuses = [*DONE, *RETRIED, *TERMINAL]
    upcoming = iter(statuses)
    target = start(lambda connection, _: connection.sendall(answer(next(upcoming))))

    results = dict(zip(statuses, attempts(*[http_job(target.url) for _ in statuses]), strict=True))

    for code in DONE:
        response = done(results[code]).response
        assert response is not None
        assert response.code == code
    for code in (*RETRIED, *TERMINAL):
        failure = failed(results[code])
        assert failure.is_final is (code in TERMINAL)
        assert failure.error_class == "HttpStatus"
        assert failure.response is not None
        assert failure.response.code == code
        assert str(failure).startswith(f"127.0.0.1:{target.port} answered {code}")


def test_the_delivery_and_the_job_may_judge_otherwise(start: Start) -> None:
    upcoming = iter([200, 404, 404, 503])
    target = start(lambda connection, _: connection.sendall(answer(next(upcoming))))

    unexpected, expected, retried, given_up = attempts(
        http_job(target.url, expectedStatuses=[202]),
        http_job(target.url, expectedStatuses=["4xx"]),
        http_job(target.url, retry={"retryableStatuses": [404]}),
        http_job(target.url, retry={"terminalStatuses": [503]}),
    )

    assert failed(unexpected).is_final
    done(expected)
    assert not failed(retried).is_final
    assert failed(given_up).is_final


@pytest.mark.parametrize(
    ("header", "after"),
    [
        ("120", timedelta(seconds=120)),
        ("0", timedelta(seconds=1)),
        ("9" * 18, timedelta(days=30)),
        ("in a while", None),
    ],
)
def test_retry_after_in_seconds_is_heeded(
    start: Start, header: str, after: timedelta | None
) -> None:
    target = start(sends(answer(503, Retry_After=header)))

    assert failed(attempt(http_job(target.url))).after == after


@pytest.mark.parametrize(
    "form",
    [
        lambda at: format_datetime(at, usegmt=True),
        lambda at: at.strftime("%A, %d-%b-%y %H:%M:%S GMT"),
        lambda at: at.strftime("%a %b %e %H:%M:%S %Y"),
    ],
    ids=["IMF-fixdate", "RFC 850", "asctime"],
)
def test_retry_after_as_a_date_is_heeded(start: Start, form: Callable[[datetime], str]) -> None:
    at = datetime.now(UTC) + timedelta(minutes=5)
    target = start(sends(answer(429, Retry_After=form(at))))

    after = failed(attempt(http_job(target.url))).after

    assert after is not None
    assert timedelta(minutes=4.5) < after <= timedelta(minutes=5)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "without sending a response"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "without sending a response"),
        (b"220 mail.example ESMTP\r\n\r\n", "illegal status line"),
        (b"\x16\x03\x01\x02\x00" * 20 + b"\r\n\r\n", "illegal status line"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000, "Receive buffer too long"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\n", "Content-Length"),
    ],
    ids=["nothing", "half of the headers", "another protocol", "bytes", "huge headers", "lengths"],
)
def test_what_is_no_answer_is_tried_again(start: Start, data: bytes, reason: str) -> None:
    target = start(hangs_up_after(data))

    failure = failed(attempt(http_job(target.url)))

    assert not failure.is_final
    assert failure.error_class == "InvalidAnswer"
    assert reason in str(failure)
    assert failure.response is None
    assert len(target.requests) == 1


def test_a_status_counts_though_the_body_breaks_off(start: Start) -> None:
    target = start(hangs_up_after(answer(200, b"accepted")[:-4]))

    response = done(attempt(http_job(target.url))).response

    assert response is not None
    assert (response.code, response.excerpt) == (200, "acce")


def drips(data: bytes, after: bytes = b"") -> Behave:
    def behave(connection: socket.socket, _: Arrived) -> None:
        connection.sendall(data)
        for byte in after * 100:
            time.sleep(0.1)
            connection.sendall(bytes([byte]))

    return behave


def test_headers_that_drip_are_given_up_when_the_time_is_over(start: Start) -> None:
    target = start(drips(b"HTTP/1.1 200 OK\r\n", b"X-Drip: 1\r\n"))

    began = time.monotonic()
    failure = failed(attempt(http_job(target.url, timeoutSeconds=0.5)))

    assert time.monotonic() - began < 2
    assert not failure.is_final
    assert failure.error_class == "Timeout"
    assert str(failure) == f"127.0.0.1:{target.port} did not answer within 0.5 s"
    assert target.left.wait(5)


def test_a_body_that_drips_is_cut_when_the_time_is_over(start: Start) -> None:
    target = start(drips(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b"a"))

    began = time.monotonic()
    response = done(attempt(http_job(target.url, timeoutSeconds=0.5))).response

    assert 0.5 <= time.monotonic() - began < 2
    assert response is not None
    assert set(response.excerpt) == {"a"}
    assert target.left.wait(5)


def test_of_a_gigabyte_64_kib_are_read_and_the_connection_is_dropped(start: Start) -> None:
    sent = 0

    def behave(connection: socket.socket, _: Arrived) -> None:
        nonlocal sent
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        chunk = b"0123456789abcdef" * 4096
        while sent < 1 << 30:
            connection.sendall(chunk)
            sent += len(chunk)

    target = start(behave)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    response = done(attempt(http_job(target.url))).response

    assert response is not None
    assert len(response.excerpt) == EXCERPT_BYTES
    assert target.left.wait(5)
    # What the kernel's buffers hold.
    assert sent < 50 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10


def test_what_is_longer_than_it_said_is_no_answer_to_the_next_request(start: Start) -> None:
    def behave(connection: socket.socket, request: Arrived) -> None:
        lie = answer(410) if len(target.requests) == 1 else b""
        connection.sendall(answer(200) + lie)

    target = start(behave)

    results = attempts(http_job(target.url), http_job(target.url))

    assert codes(results) == [200, 200]
    assert target.connections == 2


def test_redirects_are_not_followed(start: Start) -> None:
    inner = start(sends(answer(200)))
    outer = start(sends(answer(302, Location=inner.url)))

    failure = failed(attempt(http_job(outer.url)))

    assert failure.is_final
    assert str(failure).endswith("answered 302 Found")
    assert inner.connections == 0


def test_a_kept_connection_is_used_again(start: Start) -> None:
    target = start(sends(answer(200, b"ok")))

    attempts(*[http_job(target.url) for _ in range(5)])

    assert len(target.requests) == 5
    assert target.connections == 1


def test_a_kept_connection_that_the_server_closed_costs_no_attempt(start: Start) -> None:
    """It closes right after its answer, without having said so."""
    target = start(hangs_up_after(answer(200)))

    results = attempts(*[http_job(target.url) for _ in range(5)])

    assert codes(results) == [200] * 5
    assert len(target.requests) == 5


def test_a_kept_connection_that_breaks_at_the_next_request_costs_no_attempt(start: Start) -> None:
    """The server closes while the request is under way: it is sent again, on a new connection."""

    def behave(connection: socket.socket, _: Arrived) -> None:
        if len(target.requests) == 2:
            connection.shutdown(socket.SHUT_RDWR)
        else:
            connection.sendall(answer(200))

    target = start(behave)

    results = attempts(http_job(target.url), http_job(target.url, payload='{"n":2}'))

    assert codes(results) == [200, 200]
    assert [request.body for request in target.requests] == [b"{}", b'{"n":2}', b'{"n":2}']


def test_what_is_kept_is_closed_after_a_while(start: Start) -> None:
    target = start(sends(answer(200)))

    attempts(
        http_job(target.url), http_job(target.url), pause=0.3, keep_alive=timedelta(seconds=0.1)
    )

    assert target.connections == 2


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain", "Grüße".encode(), "Grüße"),
        ("text/plain; charset=iso-8859-1", "Grüße".encode("latin-1"), "Grüße"),
        ('text/plain; charset="utf-16"', "Grüße".encode("utf-16"), "Grüße"),
        ("text/plain", b"a\xffb", "a\N{REPLACEMENT CHARACTER}b"),
        ("text/plain", b"a\0b", "a\N{REPLACEMENT CHARACTER}b"),
        ("text/plain; charset=utf-7", b"+2AA-", "+2AA-"),
        ("text/plain; charset=hex", b"6162", "6162"),
        ("text/plain; charset=no-such", b"ok", "ok"),
    ],
)
def test_the_excerpt_is_text_that_can_be_stored(
    start: Start, content_type: str, body: bytes, text: str
) -> None:
    target = start(sends(answer(200, body, Content_Type=content_type)))

    response = done(attempt(http_job(target.url))).response

    assert response is not None
    assert response.excerpt == text


def test_what_is_packed_is_not_unpacked(start: Start) -> None:
    target = start(sends(answer(200, b"\x1f\x8b" + b"x" * 98, Content_Encoding="gzip")))

    response = done(attempt(http_job(target.url))).response

    assert response is not None
    assert response.excerpt == "(100 bytes, gzip)"


def test_nobody_listening_and_unknown_names_are_tried_again() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    refused, unknown = map(
        failed, attempts(http_job(f"http://127.0.0.1:{port}/"), http_job("http://nowhere.invalid/"))
    )

    assert not refused.is_final
    assert str(refused) == f"no connection to 127.0.0.1:{port}: Connection refused"
    assert not unknown.is_final
    assert "the name of nowhere.invalid cannot be resolved" in str(unknown)


def test_no_more_connections_to_a_host_than_allowed(start: Start) -> None:
    def behave(connection: socket.socket, _: Arrived) -> None:
        time.sleep(0.05)
        connection.sendall(answer(200))

    target = start(behave)

    results = attempts(*[http_job(target.url) for _ in range(40)], at_once=True, per_host=4)

    assert codes(results) == [200] * 40
    assert target.most_open == 4


def test_who_finds_no_free_connection_comes_again_without_an_attempt_used_up(start: Start) -> None:
    def behave(connection: socket.socket, _: Arrived) -> None:
        time.sleep(0.5)
        connection.sendall(answer(200))

    target = start(behave)

    results = attempts(
        http_job(target.url),
        http_job(target.url),
        at_once=True,
        per_host=1,
        patience=timedelta(seconds=0.1),
    )

    assert sorted(type(each).__name__ for each in results) == ["Delivered", "Snooze"]
    assert len(target.requests) == 1


def test_attempts_that_are_broken_off_take_no_connection_along(start: Start) -> None:
    """At whatever moment: while they wait, connect, send or read."""
    chance = random.Random(7)

    def behave(connection: socket.socket, _: Arrived) -> None:
        time.sleep(chance.choice([0, 0.01]))
        connection.sendall(answer(200, b"ok", Connection=chance.choice(["close", "keep-alive"])))

    target = start(behave)

    # What is forgotten is closed by Python, with a warning.
    with warnings.catch_warnings(record=True) as forgotten:
        warnings.simplefilter("always", ResourceWarning)
        results = attempts(
            *[http_job(target.url) for _ in range(500)],
            at_once=True,
            per_host=8,
            cut=lambda: chance.uniform(0, 0.5),
        )
        gc.collect()

    assert not [each.message for each in forgotten if "transport" in str(each.message)]
    kinds = Counter(type(result).__name__ for result in results)
    assert kinds.keys() == {"Delivered", "TimeoutError"}
    wait_for(lambda: target.open == 0, deadline=timedelta(seconds=5))
