"""What a delivery sends, and where to: headers, body, signature, TLS, and only public addresses."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
import trustme
from cryptography.fernet import Fernet
from standardwebhooks import Webhook, WebhookVerificationError

from executor.delivery.sender import Delivered
from jobs.delivery.secrets import Secrets
from tests.deliveries import attempt, attempts, codes, failed, http_job
from tests.targets import Arrived, Target, answer, sends

KEY = Fernet.generate_key().decode()
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of this test
NO_TIME = timedelta(milliseconds=1)


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target(sends(answer(200)))
    yield target
    target.close()


def sealed(text: str) -> str:
    return Secrets([KEY]).seal(text)


def test_the_payload_goes_out_as_it_was_stored(target: Target) -> None:
    payload = '{"order": {"id": 7, "name": "Grüße"}, "big": 12345678901234567890}'
    job = http_job(target.url + "?a=b&c=%20", payload=payload, attempts=2)

    attempt(job)

    [request] = target.requests
    assert request.line == "POST /hook?a=b&c=%20 HTTP/1.1"
    assert request.body == payload.encode()
    assert request.headers == {
        "host": f"127.0.0.1:{target.port}",
        "user-agent": "Chronos/test",
        "content-type": "application/json",
        "content-length": str(len(payload.encode())),
        "accept-encoding": "identity",
        "idempotency-key": str(job.id),
        "chronos-attempt": "3",
    }


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_some_methods_have_no_body_where_there_is_no_payload(target: Target, method: str) -> None:
    attempt(http_job(target.url, method=method))

    [request] = target.requests
    assert request.line.startswith(f"{method} ")
    assert request.body == b""
    assert "content-type" not in request.headers
    assert "content-length" not in request.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_the_others_send_an_empty_object_then(target: Target, method: str) -> None:
    attempt(http_job(target.url, method=method))

    [request] = target.requests
    assert request.line.startswith(f"{method} ")
    assert request.body == b"{}"


def test_a_template_makes_the_body(target: Target) -> None:
    job = http_job(
        target.url,
        body='<order id="{{{ payload.id }}}" try="{{ attempt }}">{{ payload.tags }}</order>',
        headers={"content-type": "application/xml", "X-Team": "billing"},
        payload='{"id": "o-1", "tags": ["a", "b"]}',
    )

    attempt(job)

    [request] = target.requests
    assert request.body == b'<order id="o-1" try="1">["a","b"]</order>'
    assert request.headers["content-type"] == "application/xml"
    assert request.headers["x-team"] == "billing"


def test_a_value_that_the_template_misses_is_terminal_and_sends_nothing(target: Target) -> None:
    failure = failed(attempt(http_job(target.url, body="{{ payload.order.id }}", payload="{}")))

    assert failure.is_final
    assert str(failure) == "delivery.body needs payload.order.id, which is missing"
    assert not target.requests


def test_the_signature_passes_the_verification_of_its_standard(target: Target) -> None:
    job = http_job(target.url, payload='{"a":"ü"}', secret=sealed(SECRET))

    attempt(job, encryption_keys=(KEY,))

    [request] = target.requests
    assert request.headers["webhook-id"] == str(job.id)
    assert Webhook(SECRET).verify(request.body, request.headers) == {"a": "ü"}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(request.body + b" ", request.headers)


def test_secret_headers_are_sent_and_appear_nowhere_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def echo(connection: socket.socket, request: Arrived) -> None:
        token = request.headers["authorization"].split()[1]
        connection.sendall(answer(500, json.dumps([request.headers, token]).encode()))

    target = Target(echo)
    job = http_job(
        target.url,
        secret=sealed(SECRET),
        secretHeaders={"Authorization": sealed("Bearer hunter2")},
    )

    with caplog.at_level("DEBUG"):
        failure = failed(attempt(job, encryption_keys=(KEY,)))
    target.close()

    [request] = target.requests
    assert request.headers["authorization"] == "Bearer hunter2"
    assert failure.response is not None
    shown, token = json.loads(failure.response.excerpt)
    assert shown["authorization"] == token == "***"
    for text in (str(failure), failure.response.excerpt, caplog.text):
        assert "hunter2" not in text
        assert SECRET not in text


def test_an_echo_that_is_no_http_gives_no_secret_away() -> None:
    def echo(connection: socket.socket, request: Arrived) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + request.headers["authorization"].encode())
        connection.sendall(b"\r\n\r\n")

    target = Target(echo)
    job = http_job(target.url, secretHeaders={"Authorization": sealed("Bearer hunter2")})

    failure = failed(attempt(job, encryption_keys=(KEY,)))
    target.close()

    assert str(failure).endswith("in HTTP: illegal header line")


def test_a_secret_that_cannot_be_opened_may_be_later(target: Target) -> None:
    failure = failed(attempt(http_job(target.url, secret=sealed(SECRET))))

    assert not failure.is_final
    assert failure.error_class == "SecretUnreadable"
    assert not target.requests


def test_a_line_break_in_a_header_never_gets_out(target: Target) -> None:
    value = sealed("Bearer t0ken\r\nX-Injected: yes")
    job = http_job(target.url, secretHeaders={"Authorization": value})

    failure = failed(attempt(job, encryption_keys=(KEY,)))

    assert failure.is_final
    assert failure.error_class == "InvalidRequest"
    assert "t0ken" not in str(failure)
    assert not target.requests


@pytest.mark.parametrize(
    ("name", "value"), [("X-Team", "Grüße"), ("\ud800", "t0ken"), ("X A", "b")]
)
def test_a_secret_header_that_http_does_not_allow_is_terminal(
    target: Target, name: str, value: str
) -> None:
    job = http_job(target.url, secretHeaders={name: sealed(value)})

    failure = failed(attempt(job, encryption_keys=(KEY,)))

    assert failure.is_final
    assert failure.error_class == "InvalidRequest"
    assert str(failure).startswith("the request cannot be sent: a header has a name or value")
    assert not target.requests


def test_a_delivery_that_somebody_broke_is_terminal() -> None:
    edited = (
        *(None, "{", "[]", '{"url": 7}', '{"url": "ftp://example.com/"}', "{}"),
        *(
            '{"url": "http://a/", "secret": {"a": "b"}}',
            '{"url": "http://a/", "secret": "\\ud800"}',
        ),
        '{"url": "http://a/", "secretHeaders": "abc"}',
        '{"url": "http://a/", "secretHeaders": {"a": "\\ud800"}}',
    )
    for text in edited:
        failure = failed(attempt(http_job("", delivery=text)))

        assert failure.is_final
        assert "delivery" in str(failure)


PRIVATE = [
    "127.0.0.1",
    "localhost",
    "2130706433",
    "0x7f000001",
    "017700000001",
    "127.1",
    "0",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    "[fe80::1]",
    "[fd00::1]",
    "10.1.2.3",
    "100.64.0.1",
    "169.254.169.254",
    "224.0.0.1",
    "255.255.255.255",
]


@pytest.mark.parametrize("host", PRIVATE)
def test_what_is_not_public_is_refused_however_it_is_written(target: Target, host: str) -> None:
    failure = failed(attempt(http_job(f"http://{host}:{target.port}/"), allowed_networks=()))

    assert failure.is_final
    assert failure.error_class == "AddressRefused"
    assert "is not a public address" in str(failure)
    assert target.connections == 0


def test_what_is_allowed_is_reached_however_it_is_written(target: Target) -> None:
    hosts = ("127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]")

    results = attempts(*[http_job(f"http://{host}:{target.port}/") for host in hosts])

    assert all(isinstance(result, Delivered) for result in results)


def test_a_name_that_changes_its_address_gains_nothing(target: Target) -> None:
    """What is checked is what is connected to, each time anew."""
    addresses = iter(["127.0.0.1", "10.0.0.1"])

    async def rebinding(host: str) -> Sequence[str]:
        return [next(addresses)]

    jobs = [http_job(f"http://shop.example:{target.port}/", headers={"n": n}) for n in "12"]
    first, second = attempts(*jobs, resolve=rebinding, keep_alive=NO_TIME, pause=0.01)

    assert isinstance(first, Delivered)
    assert failed(second).error_class == "AddressRefused"
    assert next(addresses, None) is None
    assert target.connections == 1
    assert target.requests[0].headers["host"] == f"shop.example:{target.port}"


def test_of_several_addresses_only_those_that_are_allowed_are_tried(target: Target) -> None:
    async def mixed(host: str) -> Sequence[str]:
        return ["10.0.0.1", "::1", "127.0.0.9", "127.0.0.1"]

    result = attempt(http_job(f"http://shop.example:{target.port}/"), resolve=mixed)

    # Nobody listens at 127.0.0.9.
    assert isinstance(result, Delivered)


async def at_home(host: str) -> Sequence[str]:
    """A name server that knows one address."""
    return ["127.0.0.1"]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def certified(authority: trustme.CA) -> ssl.SSLContext:
    """For a server that is shop.example."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("shop.example").configure_cert(context)
    return context


@pytest.fixture
def shop(certified: ssl.SSLContext) -> Iterator[Target]:
    """Speaks TLS as shop.example."""
    target = Target(sends(answer(200)), tls=certified)
    yield target
    target.close()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system trusts the test's authority."""
    file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))


def test_tls_is_spoken_with_whom_the_system_trusts(shop: Target, trusted: None) -> None:
    jobs = [http_job(f"https://shop.example:{shop.port}/") for _ in range(2)]

    results = attempts(*jobs, resolve=at_home)

    assert all(isinstance(result, Delivered) for result in results)
    assert shop.connections == 1


def test_what_came_unasked_within_tls_is_no_answer_to_the_next_request(
    certified: ssl.SSLContext, trusted: None
) -> None:
    """In a record of its own, but read from the socket together with the answer."""

    def behave(connection: socket.socket, request: Arrived) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        connection.sendall(answer(200))
        if len(chatty.requests) == 1:
            connection.sendall(answer(410))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    chatty = Target(behave, tls=certified)
    jobs = [http_job(f"https://shop.example:{chatty.port}/") for _ in range(3)]

    results = attempts(*jobs, resolve=at_home)
    chatty.close()

    assert codes(results) == [200, 200, 200]
    assert chatty.connections == 2
    assert len(chatty.requests) == 3


@pytest.mark.parametrize("name", ["other.example", "127.0.0.1"])
def test_a_certificate_for_another_name_is_refused(shop: Target, trusted: None, name: str) -> None:
    failure = failed(attempt(http_job(f"https://{name}:{shop.port}/"), resolve=at_home))

    assert not failure.is_final
    assert failure.error_class == "TlsError"
    assert f"the certificate of {name}:{shop.port} is not accepted" in str(failure)
    assert "mismatch" in str(failure)
    assert not shop.requests


def test_a_certificate_that_nobody_vouches_for_is_refused(shop: Target) -> None:
    failure = failed(attempt(http_job(f"https://shop.example:{shop.port}/"), resolve=at_home))

    assert not failure.is_final
    assert failure.error_class == "TlsError"
    assert "self-signed" in str(failure) or "unable to get local issuer" in str(failure)
    assert not shop.requests


def test_who_does_not_answer_the_tls_handshake_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        job = http_job(f"https://127.0.0.1:{silent.getsockname()[1]}/")

        failure = failed(attempt(job, connect_timeout=timedelta(seconds=0.3)))

        connection, _ = silent.accept()
        with connection:
            connection.settimeout(5)
            # To the end, which is there.
            assert connection.makefile("rb").read()

    assert not failure.is_final
    assert failure.error_class == "Timeout"
    assert "did not accept a connection in time" in str(failure)
