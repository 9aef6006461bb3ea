"""What targets may do to a delivery, on real sockets: every answer is judged, none does harm."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from executor.delivery.answer import EXCERPT_BYTES
from executor.delivery.places import Busy
from jobs.lifecycle import Response
from jobs.registry import Snooze
from tests.deliveries import attempt, attempts, done, failed, http_job
from tests.targets import Arrived, Behave, Target, answer, hangs_up_after, sends

StartTarget = Callable[[Behave], Target]


DONE = (200, 201, 202, 204, 206, 299)
RETRIED = (408, 425, 429, 500, 502, 503, 504, 599)
TERMINAL = (300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 409, 410, 418, 422, 499)


def test_every_status_has_its_meaning(start_target: StartTarget) -> None:
    statuses = [*DONE, *RETRIED, *TERMINAL]
    upcoming = iter(statuses)
    target = start_target(lambda connection, _: connection.sendall(answer(next(upcoming))))

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


def test_the_delivery_and_the_job_may_judge_otherwise(start_target: StartTarget) -> None:
    upcoming = iter([200, 404, 404, 503])
    target = start_target(lambda connection, _: connection.sendall(answer(next(upcoming))))

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
    start_target: StartTarget, header: str, after: timedelta | None
) -> None:
    target = start_target(sends(answer(503, Retry_After=header)))

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
def test_retry_after_as_a_date_is_heeded(
    start_target: StartTarget, form: Callable[[datetime], str]
) -> None:
    at = datetime.now(UTC) + timedelta(minutes=5)
    target = start_target(sends(answer(429, Retry_After=form(at))))

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
def test_what_is_no_answer_is_tried_again(
    start_target: StartTarget, data: bytes, reason: str
) -> None:
    target = start_target(hangs_up_after(data))

    failure = failed(attempt(http_job(target.url)))

    assert not failure.is_final
    assert failure.error_class == "InvalidAnswer"
    assert reason in str(failure)
    assert failure.response is None
    assert len(target.requests) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + answer(200, b"hello"),
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + answer(200, b"hello"),
        b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
    ],
    ids=["HTTP/1.0", "until it closes", "in chunks", "early hints", "continue", "without a phrase"],
)
def test_answers_in_other_forms_are_understood(start_target: StartTarget, data: bytes) -> None:
    target = start_target(hangs_up_after(data))

    response = done(attempt(http_job(target.url))).response

    assert response == Response(200, "hello")


def test_who_answers_before_the_request_is_complete_is_heard() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer(413, b"too large", Connection="close"))
                # The client gives up sending when it has the answer.
                while connection.recv(1 << 16):
                    pass

        thread = threading.Thread(target=refuse)
        thread.start()
        payload = '{"a":"' + "x" * 10_000_000 + '"}'
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"

        failure = failed(attempt(http_job(url, payload=payload)))
        thread.join()

    assert failure.is_final
    assert failure.response == Response(413, "too large")


def test_who_reads_nothing_is_given_up_when_the_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        payload = '{"a":"' + "x" * 10_000_000 + '"}'
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"

        failure = failed(attempt(http_job(url, payload=payload, timeoutSeconds=0.5)))

    assert not failure.is_final
    assert failure.error_class == "Timeout"


def test_a_status_counts_though_the_body_breaks_off(start_target: StartTarget) -> None:
    target = start_target(hangs_up_after(answer(200, b"accepted")[:-4]))

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


def test_headers_that_drip_are_given_up_when_the_time_is_over(start_target: StartTarget) -> None:
    target = start_target(drips(b"HTTP/1.1 200 OK\r\n", b"X-Drip: 1\r\n"))

    began = time.monotonic()
    failure = failed(attempt(http_job(target.url, timeoutSeconds=2)))

    assert time.monotonic() - began < 30
    assert not failure.is_final
    assert failure.error_class == "Timeout"
    assert str(failure) == f"127.0.0.1:{target.port} did not answer within 2 s"
    assert target.left.wait(30)


def test_a_body_that_drips_is_cut_when_the_time_is_over(start_target: StartTarget) -> None:
    target = start_target(drips(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b"a"))

    began = time.monotonic()
    response = done(attempt(http_job(target.url, timeoutSeconds=2))).response

    assert 2 <= time.monotonic() - began < 30
    assert response is not None
    assert set(response.excerpt) == {"a"}
    assert target.left.wait(30)


def test_of_a_gigabyte_64_kib_are_read_and_the_connection_is_dropped(
    start_target: StartTarget,
) -> None:
    sent = 0

    def behave(connection: socket.socket, _: Arrived) -> None:
        nonlocal sent
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        chunk = b"0123456789abcdef" * 4096
        while sent < 1 << 30:
            connection.sendall(chunk)
            sent += len(chunk)

    target = start_target(behave)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    response = done(attempt(http_job(target.url))).response

    assert response is not None
    assert len(response.excerpt) == EXCERPT_BYTES
    assert target.left.wait(30)
    # What the kernel's buffers hold.
    assert sent < 50 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10


def test_redirects_are_not_followed(start_target: StartTarget) -> None:
    inner = start_target(sends(answer(200)))
    outer = start_target(sends(answer(302, Location=inner.url)))

    failure = failed(attempt(http_job(outer.url)))

    assert failure.is_final
    assert str(failure).endswith("answered 302 Found")
    assert inner.connections == 0


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
    start_target: StartTarget, content_type: str, body: bytes, text: str
) -> None:
    target = start_target(sends(answer(200, body, Content_Type=content_type)))

    response = done(attempt(http_job(target.url))).response

    assert response is not None
    assert response.excerpt == text


def test_what_is_packed_is_not_unpacked(start_target: StartTarget) -> None:
    target = start_target(sends(answer(200, b"\x1f\x8b" + b"x" * 98, Content_Encoding="gzip")))

    response = done(attempt(http_job(target.url))).response

    assert response is not None
    assert response.excerpt == "(100 bytes, gzip)"


def test_nobody_listening_and_unknown_names_are_tried_again() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        # Bound, so that nobody else takes it, and not listened to.
        port = free.getsockname()[1]
        jobs = http_job(f"http://127.0.0.1:{port}/"), http_job("http://nowhere.invalid/")
        refused, unknown = map(failed, attempts(*jobs))

    assert not refused.is_final
    assert str(refused) == f"no connection to 127.0.0.1:{port}: Connection refused"
    assert not unknown.is_final
    assert "the name of nowhere.invalid cannot be resolved" in str(unknown)


def test_a_name_that_nobody_answers_for_is_tried_again() -> None:
    async def silent(host: str) -> Sequence[str]:
        await asyncio.sleep(60)
        return []

    failure = failed(
        attempt(
            http_job("http://shop.example/"),
            resolve=silent,
            connect_timeout=timedelta(seconds=0.1),
        )
    )

    assert not failure.is_final
    assert failure.error_class == "NameNotResolved"
    assert str(failure) == "the name of shop.example cannot be resolved: nobody answered in time"


def test_who_finds_too_many_names_looked_up_comes_again_without_an_attempt_used_up() -> None:
    async def busy(host: str) -> Sequence[str]:
        raise Busy

    result = attempt(http_job("http://shop.example/"), resolve=busy)

    assert isinstance(result, Snooze)
