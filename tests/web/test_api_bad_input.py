"""What POST /jobs refuses: 400 with a sentence that names the field, and nothing stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from jobs.services import Services
from tests.web.client import Api, body_of, error_of, one_off, recurring


@pytest.fixture(autouse=True)
def nothing_stored(api: Api) -> Iterator[None]:
    yield
    assert body_of(api.get("/jobs", tenantId="t")) == []


def nested(levels: int, open_: str, close: str) -> str:
    return open_ * levels + close * levels


BAD_FIELDS: list[tuple[str, dict[str, Any]]] = [
    *((name, one_off(**{name: None})) for name in ("idempotencyKey", "tenantId", "jobType")),
    ("scheduledAt", one_off(scheduledAt=None)),
    *((name, one_off(**{name: ""})) for name in ("idempotencyKey", "tenantId", "jobType")),
    *(
        (name, one_off(**{name: value}))
        for name in ("idempotencyKey", "tenantId")
        for value in ("a\0b", "a\x1bb", "a\x9fb", "x" * 256, 1, True, ["a"])
    ),
    ("jobType", one_off(jobType="no-such-type")),
    *(
        ("scheduledAt", one_off(scheduledAt=value))
        for value in (
            "2026-09-29T18:00:00",
            "2026-02-30T18:00:00Z",
            "2026-12-31T23:59:60Z",
            "2026-09-29T18:00:00+24:00",
            "1969-12-31T23:59:59Z",
            "9999-12-31T23:59:59-00:01",
            "tomorrow",
            1790704800,
            True,
        )
    ),
    *(("priority", one_off(priority=value)) for value in (True, 1.5, 1.0, "1", 2**31, [])),
    *(("maxAttempts", one_off(maxAttempts=value)) for value in (True, 1.5, "3", -(2**31) - 1)),
    *(("payload", one_off(payload=value)) for value in ([], "text", 1, True, {"a": 2**63})),
    ("payload", one_off(payload={"a\0b": 1})),
    ("payload", one_off(payload={"a": "\ud800"})),
    ("payload", one_off(payload={"\udc00": 1})),
    ("tags", one_off(tags=["a", "a"])),
    ("retry", one_off(retry={"base": -1})),
    ("timeoutSeconds", one_off(timeoutSeconds=0)),
    ("timezone", one_off(timezone="UTC")),
    ("catchUp", one_off(catchUp="one")),
    ("overlap", one_off(overlap="skip")),
    ("scheduledAt", recurring(scheduledAt="2026-09-29T18:00:00Z")),
    ("cron", recurring(cron="* * * *")),
    ("cron", recurring(cron="0 0 30 2 *")),
    ("timezone", recurring(timezone="Mars/Olympus")),
    ("catchUp", recurring(catchUp="many")),
]


@pytest.mark.parametrize(("field", "document"), BAD_FIELDS)
def test_the_sentence_names_the_field(api: Api, field: str, document: dict[str, Any]) -> None:
    assert error_of(api.post("/jobs", document), 400).startswith(field)


@pytest.mark.parametrize("name", [*one_off(payload={}, priority=1, maxAttempts=1, tags=[])])
def test_null_is_a_wrong_type(api: Api, name: str) -> None:
    document = one_off() | {name: None}

    assert error_of(api.post("/jobs", document), 400).startswith(f"{name} must be")


def test_an_unknown_job_type_lists_the_known_ones(api: Api) -> None:
    answer = api.post("/jobs", one_off(jobType="nope"))

    assert "flaky, http, kafka, log-message, noop, slow" in error_of(answer, 400)


def test_an_unknown_field_comes_with_a_hint(api: Api) -> None:
    answer = api.post("/jobs", one_off(maxAttempt=3))

    assert 'did you mean "maxAttempts"' in error_of(answer, 400)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5000])
@pytest.mark.parametrize("place", ['{"a": %s}', '{"a": [%s]}', '{"a": {"b": %s}}'])
def test_numbers_without_a_value_are_refused(api: Api, number: str, place: str) -> None:
    body = json.dumps(one_off(payload="PAYLOAD")).replace('"PAYLOAD"', place % number)

    assert error_of(api.send("/jobs", body.encode()), 400).startswith("body is not usable JSON")


@pytest.mark.parametrize(
    "payload",
    [
        nested(51, '{"a":', "}").replace('{"a":}', "{}"),
        f'{{"a": {nested(50, "[", "]")}}}',
        f'{{"a": {nested(400, "[", "]")}}}',
    ],
)
def test_a_payload_that_nests_too_deeply_is_refused(api: Api, payload: str) -> None:
    body = json.dumps(one_off(payload="PAYLOAD")).replace('"PAYLOAD"', payload)

    assert "nest deeper than 50" in error_of(api.send("/jobs", body.encode()), 400)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  \n",
        b"{",
        b"nope",
        b"{'a': 1}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe",
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf{}",
        b"\x00",
        b'{"tenantId": "t", "tenantId": "t"}',
        b"1" * 5000,
        b"{} {}",
        "{}".encode("utf-16"),
    ],
)
@pytest.mark.parametrize("path", ["/jobs", "/jobs/bulk"])
def test_what_is_not_json_is_refused(api: Api, path: str, body: bytes) -> None:
    assert error_of(api.send(path, body), 400).startswith("body ")


@pytest.mark.parametrize("value", [[], [{}], "job", 1, None, True])
def test_a_job_is_an_object(api: Api, value: object) -> None:
    answer = api.send("/jobs", json.dumps(value).encode())

    assert error_of(answer, 400).startswith("a job must be an object")


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"],
)
def test_a_body_that_is_not_said_to_be_json_is_415(api: Api, content_type: str) -> None:
    answer = api.send("/jobs", json.dumps(one_off()).encode(), content_type)

    assert "application/json" in error_of(answer, 415)


def test_a_body_over_one_mebibyte_is_413(api: Api) -> None:
    body = json.dumps(one_off(payload={"a": "x" * (1 << 20)})).encode()

    assert "1 MiB" in error_of(api.send("/jobs", body), 413)


def test_a_body_with_too_many_containers_is_refused(api: Api) -> None:
    body = b"[" + b"[]," * 1_000_000 + b"[]]"

    assert "objects and arrays" in error_of(api.send("/jobs/bulk", body), 400)


def test_an_error_repeats_lone_surrogates_as_escapes(api: Api, use_cases: Services) -> None:
    answer = api.send("/jobs", b'{"\\ud800": 1}')

    assert answer.status_code == 400
    assert rb"\ud800" in answer.content
