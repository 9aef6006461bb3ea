"""`manage.py runapi`: the API as a real process, spoken to through sockets."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any
from uuid import uuid4

import httpx
import pytest

from chronos_site.config import StoreConfig
from devstack.process import free_port
from jobs.repository import Repository
from tests.processes import RoleProcess
from tests.waiting import ANSWER_SECONDS
from tests.web.api_process import api_process
from tests.web.client import one_off

StartRole = Callable[..., RoleProcess]
JSON_HEADERS = "Host: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def runapi(
    port: int, shared_store: StoreConfig, shared_repository: Repository
) -> Iterator[RoleProcess]:
    """One process for all tests that leave it alive."""
    with api_process(shared_store, port) as role:
        yield role
        assert role.is_alive


@pytest.fixture
def own_port(role_env: dict[str, str]) -> int:
    """Where a process listens that a test starts for itself."""
    return int(role_env["API_PORT"])


@pytest.fixture
def http(runapi: RoleProcess, port: int) -> Iterator[httpx.Client]:
    limits = httpx.Limits(max_connections=64)
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}", timeout=ANSWER_SECONDS, trust_env=False, limits=limits
    ) as client:
        yield client


class Wire:
    """One connection, on which anything may be sent."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)
        self._file = self.socket.makefile("rb")

    def send(self, text: str | bytes) -> None:
        self.socket.sendall(text.encode() if isinstance(text, str) else text)

    def answer(self) -> tuple[int, dict[str, str], Any]:
        """The next answer: status, headers, decoded JSON."""
        status = int(self._file.readline().split()[1])
        headers = {}
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = self._file.read(int(headers["content-length"]))
        assert headers["content-type"] == "application/json"
        return status, headers, json.loads(body)

    def is_closed(self) -> bool:
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._file.close()
        self.socket.close()


@pytest.fixture
def wire(runapi: RoleProcess, port: int) -> Iterator[Wire]:
    with closing(Wire(port)) as opened:
        yield opened


def fetch(port: int, path: str) -> httpx.Response:
    """The answer on a connection of its own."""
    return httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False, timeout=ANSWER_SECONDS)


def submit(port: int) -> httpx.Response:
    """The same of a job that is submitted."""
    return httpx.post(
        f"http://127.0.0.1:{port}/jobs", json=one_off(), trust_env=False, timeout=ANSWER_SECONDS
    )


def chunked(*parts: bytes) -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return chunks + b"0\r\n\r\n"


def test_of_32_threads_that_post_one_key_one_wins(http: httpx.Client) -> None:
    tenant = uuid4().hex
    for _ in range(5):
        document = one_off(tenantId=tenant)
        with ThreadPoolExecutor(32) as threads:
            answers = list(
                threads.map(lambda _: http.post("/jobs", json=document), range(32))  # noqa: B023
            )

        statuses = sorted(answer.status_code for answer in answers)
        assert statuses == [201] + [409] * 31
        assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(http.get("/jobs", params={"tenantId": tenant}).json()) == 5


def test_concurrent_submissions_each_get_their_own_answer(http: httpx.Client) -> None:
    taken = http.post("/jobs", json=one_off()).json()

    def submit(number: int) -> tuple[int, Any, Any]:
        document = one_off(payload={"n": number})
        if number % 4 == 1:
            document["priority"] = "high"
        elif number % 4 == 2:
            document["idempotencyKey"] = taken["idempotencyKey"]
        answer = http.post("/jobs", json=document)
        return number, answer.status_code, answer.json()

    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(submit, range(400)))

    for number, status, body in answers:
        assert status == {1: 400, 2: 409}.get(number % 4, 201)
        if status == 201:
            assert body["payload"] == {"n": number}
            assert http.get(f"/jobs/{body['id']}").json() == body
        elif status == 409:
            assert body["id"] == taken["id"]


def test_a_connection_serves_many_requests(wire: Wire) -> None:
    for _ in range(5):
        body = json.dumps(one_off())
        wire.send(f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}Content-Length: {len(body)}\r\n\r\n{body}")

        assert wire.answer()[0] == 201


def test_requests_may_be_sent_ahead(wire: Wire) -> None:
    bodies = [json.dumps(one_off(payload={"n": number})) for number in range(5)]
    wire.send(
        "".join(
            f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}Content-Length: {len(body)}\r\n\r\n{body}"
            for body in bodies
        )
    )

    answers = [wire.answer() for _ in bodies]

    assert [status for status, _, _ in answers] == [201] * 5
    assert [job["payload"]["n"] for _, _, job in answers] == [0, 1, 2, 3, 4]


def test_a_chunked_body_is_read(wire: Wire) -> None:
    body = json.dumps(one_off(payload={"a": "ü" * 1000}), ensure_ascii=False).encode()
    parts = [body[start : start + 700] for start in range(0, len(body), 700)]
    wire.send(f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}Transfer-Encoding: chunked\r\n\r\n")
    for part in parts:
        wire.send(b"%x\r\n%s\r\n" % (len(part), part))
    wire.send(b"0\r\n\r\n")

    status, _, job = wire.answer()

    assert status == 201
    assert job["payload"] == {"a": "ü" * 1000}


def test_a_chunked_body_over_the_limit_is_413(wire: Wire) -> None:
    wire.send(f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}Transfer-Encoding: chunked\r\n\r\n")
    wire.send(chunked(*[b" " * 65_536] * 17))

    status, _, body = wire.answer()

    assert (status, "1 MiB" in body["error"]) == (413, True)


@pytest.mark.parametrize(("path", "limit"), [("/jobs", 1 << 20), ("/jobs/bulk", 16 << 20)])
def test_a_declared_body_over_the_limit_is_413_before_it_is_sent(
    wire: Wire, path: str, limit: int
) -> None:
    wire.send(f"POST {path} HTTP/1.1\r\n{JSON_HEADERS}Content-Length: {limit + 1}\r\n\r\n")

    assert wire.answer()[0] == 413


@pytest.mark.parametrize("length", ["99999999999999999999", "9" * 1000])
def test_an_absurd_length_is_413_or_400(wire: Wire, length: str) -> None:
    wire.send(f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}Content-Length: {length}\r\n\r\n")

    assert wire.answer()[0] in (400, 413)


@pytest.mark.parametrize("length", ["-1", "1.5", "ten", "0x10", "1, 2", ""])
def test_a_senseless_length_is_400(wire: Wire, length: str) -> None:
    wire.send(f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}Content-Length: {length}\r\n\r\n{{}}")

    assert wire.answer()[0] == 400
    assert wire.is_closed()


def test_a_body_shorter_than_its_length_is_400(wire: Wire) -> None:
    body = json.dumps(one_off())
    wire.send(
        f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}Content-Length: {len(body) + 10}\r\n\r\n{body}"
    )
    wire.socket.shutdown(socket.SHUT_WR)

    status, _, answer = wire.answer()

    assert status == 400
    assert answer["error"].startswith("body ")


def test_a_body_longer_than_its_length_is_cut_and_the_rest_is_no_request(wire: Wire) -> None:
    body = json.dumps(one_off())
    wire.send(
        f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}Content-Length: {len(body)}\r\n\r\n{body}surplus\r\n"
    )

    assert wire.answer()[0] == 201
    assert wire.answer()[0] == 400
    assert wire.is_closed()


def test_no_length_at_all_is_an_empty_body(wire: Wire) -> None:
    wire.send(f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}\r\n")

    status, _, body = wire.answer()

    assert (status, body["error"]) == (400, "body is empty")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("nonsense\r\n\r\n", 400),
        ("GET / HTTP/9.9\r\n\r\n", 400),
        ("GET /jobs HTTP/1.1\r\nno colon\r\n\r\n", 400),
        ("GET /" + "x" * 9000 + " HTTP/1.1\r\n\r\n", 414),
        ("GET / HTTP/1.1\r\n" + "".join(f"X-{n}: 1\r\n" for n in range(300)) + "\r\n", 431),
        ("POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: zip\r\n\r\n", 501),
        (
            f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}Content-Length: 2\r\n"
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    ],
)
def test_what_is_not_http_is_answered_in_json_too(wire: Wire, request_: str, status: int) -> None:
    wire.send(request_)

    answered, _, body = wire.answer()

    assert answered == status
    assert list(body) == ["error"]
    assert wire.is_closed()


def test_clients_that_send_nothing_keep_nobody_waiting(
    runapi: RoleProcess, port: int, http: httpx.Client
) -> None:
    with ExitStack() as silent:
        for _ in range(40):
            silent.enter_context(closing(Wire(port)))
        started = time.monotonic()

        assert http.get("/healthz").text == "ok"

        # One that had a thread would keep it for five seconds.
        assert time.monotonic() - started < 5


def test_a_client_that_stops_in_the_middle_is_sent_away(wire: Wire, runapi: RoleProcess) -> None:
    wire.send(f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}Content-Length: 100\r\n\r\n{{")

    status, _, body = wire.answer()

    assert (status, body["error"][:5]) == (400, "body ")
    assert wire.is_closed()


def test_a_client_that_stops_in_a_header_is_sent_away(wire: Wire, runapi: RoleProcess) -> None:
    wire.send("POST /jobs HTTP/1.1\r\nHost: loc")

    assert wire.is_closed()
    assert "Traceback" not in runapi.output


def test_healthz_and_docs_are_served(http: httpx.Client) -> None:
    health = http.get("/healthz", headers={"host": "10.1.2.3"})

    assert (health.status_code, health.text) == (200, "ok")
    assert health.headers["content-type"].startswith("text/plain")
    assert http.get("/openapi.json").json()["openapi"] == "3.1.0"
    assert "<h1>" in http.get("/docs").text
    assert http.head("/docs").content == b""


def test_requests_are_counted(http: httpx.Client, runapi: RoleProcess) -> None:
    def counts() -> dict[str, float]:
        metrics = fetch(runapi.metrics_port, "/metrics").text
        found = re.findall(r"api_request_seconds_count\{(.*)\} (.*)", metrics)
        return {labels: float(count) for labels, count in found}

    before = counts()
    http.post("/jobs", json=one_off())
    http.get("/nope")
    http.request("BREW", "/jobs/" + "0" * 24)
    after = counts()

    assert {
        labels: count - before.get(labels, 0)
        for labels, count in after.items()
        if count != before.get(labels)
    } == {
        'method="POST",route="/jobs",status="201"': 1,
        'method="GET",route="none",status="404"': 1,
        'method="other",route="/jobs/{id}",status="405"': 1,
    }


def test_several_processes_add_up_their_metrics(start_role: StartRole, own_port: int) -> None:
    role = start_role("runapi", "--workers", "2", "--threads", "2")
    role.wait_ready()

    def post(_: int) -> int:
        # A connection of its own each time, so that both processes get some.
        return submit(own_port).status_code

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(post, range(40))) == {201}

    metrics = fetch(role.metrics_port, "/metrics").text
    assert re.search(r'api_request_seconds_count\{.*route="/jobs",status="201"\} 40\.0', metrics)
    assert role.terminate() == 0
    assert role.output.count("the API has stopped") == 1


def test_sigterm_lets_a_request_finish_and_ends_with_0(
    start_role: StartRole, own_port: int
) -> None:
    role = start_role("runapi")
    role.wait_ready()
    body = json.dumps(one_off())
    with closing(Wire(own_port)) as wire:
        wire.send(f"POST /jobs HTTP/1.1\r\n{JSON_HEADERS}Content-Length: {len(body)}\r\n\r\n")
        # Connections are taken in order: an answer on a later one shows that this one was taken.
        fetch(own_port, "/healthz")
        with ThreadPoolExecutor(1) as thread:
            ended = thread.submit(role.terminate)
            wire.send(body)

            assert wire.answer()[0] == 201
            assert ended.result() == 0
    assert "the API has stopped" in role.output


@pytest.mark.parametrize("variable", ["API_PORT", "METRICS_PORT"])
def test_a_taken_port_is_one_sentence(
    start_role: StartRole, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        taken = other.getsockname()[1]
        if variable == "METRICS_PORT":
            # RoleProcess chooses it.
            monkeypatch.setattr("tests.processes.process.free_port", lambda: taken)
        role = start_role("runapi", API_PORT=str(taken if variable == "API_PORT" else free_port()))

        assert role.wait() == 1
    assert role.output.splitlines()[-1].endswith(f"Set {variable} to a free port.")
    assert "Traceback" not in role.output


def test_a_store_without_indexes_is_one_sentence(start_role: StartRole) -> None:
    role = start_role("runapi", MONGO_DB="test_never_migrated")

    assert role.wait() == 1
    assert "Run: python manage.py migrate" in role.output
    assert "Traceback" not in role.output


def test_without_mongodb_the_api_starts_and_says_so(start_role: StartRole, own_port: int) -> None:
    nowhere = f"mongodb://127.0.0.1:{free_port()}/?replicaSet=rs0"
    role = start_role("runapi", MONGO_URI=nowhere)
    role.wait_for_line("the API listens")

    answer = submit(own_port)

    assert answer.status_code == 503
    assert "Retry-After" in answer.headers
    assert fetch(role.metrics_port, "/readyz").status_code == 503
    assert fetch(own_port, "/healthz").text == "ok"


def test_log_lines_are_json(start_role: StartRole) -> None:
    role = start_role("runapi", LOG_FORMAT="json")
    role.wait_ready()

    assert role.terminate() == 0
    lines = [json.loads(line) for line in role.output.splitlines()]
    assert {"time", "level", "logger", "message"} <= lines[0].keys()
