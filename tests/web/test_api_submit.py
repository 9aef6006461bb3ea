"""POST /jobs and GET /jobs/{id}."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.lifecycle import job_id_for
from jobs.services import Services
from tests.web.client import JSON, Api, body_of, error_of, one_off, recurring

FEWER = settings(max_examples=50)


def test_a_one_off_job_is_answered_raw_and_pending(api: Api) -> None:
    answer = api.post(
        "/jobs",
        {
            "idempotencyKey": "test-job-1",
            "tenantId": "tenant-a",
            "jobType": "log-message",
            "payload": {"message": "hello from the scheduler"},
            "priority": 5,
            "scheduledAt": "2026-09-29T18:00:00Z",
            "maxAttempts": 3,
        },
    )

    assert answer.status_code == 201
    body = body_of(answer)
    created_at = body.pop("createdAt")
    assert body.pop("updatedAt") == created_at
    assert body.pop("requestId") == answer["X-Request-Id"]
    assert datetime.fromisoformat(created_at) - datetime.now(UTC) < timedelta(minutes=1)
    assert body == {
        "id": str(job_id_for("test-job-1")),
        "idempotencyKey": "test-job-1",
        "tenantId": "tenant-a",
        "jobType": "log-message",
        "payload": {"message": "hello from the scheduler"},
        "priority": 5,
        "status": "pending",
        "scheduledAt": "2026-09-29T18:00:00Z",
        "attempts": 0,
        "maxAttempts": 3,
    }
    assert answer["Location"] == f"/jobs/{body['id']}"


def test_a_template_gets_its_first_occurrence(api: Api) -> None:
    answer = api.post("/jobs", recurring(idempotencyKey="nightly-report"))

    assert answer.status_code == 201
    body = body_of(answer)
    first = datetime.fromisoformat(body["scheduledAt"])
    created = datetime.fromisoformat(body["createdAt"])
    assert created < first <= created + timedelta(days=1)
    assert (first.hour, first.minute, first.second) == (2, 0, 0)
    assert body["cron"] == "0 2 * * *"
    assert body["status"] == "pending"
    assert "timezone" not in body


def test_every_field_comes_back(api: Api) -> None:
    document = recurring(
        timezone="Europe/Berlin",
        catchUp="all",
        overlap="skip",
        payload={"a": 1},
        priority=-7,
        maxAttempts=9,
        tags=["billing", "nightly"],
        retry={"strategy": "linear", "base": 2},
        timeoutSeconds=1.5,
    )

    body = body_of(api.post("/jobs", document))

    assert {name: body[name] for name in document} == document
    assert body_of(api.get(f"/jobs/{body['id']}")) == body


def test_absent_fields_are_omitted(api: Api) -> None:
    body = api.submit()

    assert list(body) == [
        *("id", "idempotencyKey", "tenantId", "jobType", "priority", "status", "scheduledAt"),
        *("requestId", "attempts", "maxAttempts", "createdAt", "updatedAt"),
    ]


def test_a_used_key_is_409_with_the_id_of_its_job(api: Api) -> None:
    first = api.submit(idempotencyKey="once", priority=1)

    answer = api.post("/jobs", one_off(idempotencyKey="once", tenantId="another", priority=2))

    assert answer.status_code == 409
    body = body_of(answer)
    assert body["id"] == first["id"]
    assert "once" in body["error"]
    assert body_of(api.get(f"/jobs/{first['id']}")) == first


def test_a_key_of_which_another_job_has_the_id_is_409(api: Api, use_cases: Services) -> None:
    key = "taken"
    use_cases.repository.jobs._jobs.insert_one({"_id": job_id_for(key), "idempotencyKey": "else"})

    assert "another key" in error_of(api.post("/jobs", one_off(idempotencyKey=key)), 409)


def test_times_are_written_in_utc_with_milliseconds_only_where_there_are_some(api: Api) -> None:
    with_offset = api.submit(scheduledAt="2026-09-29t20:00:00+02:00")
    with_fraction = api.submit(scheduledAt="2026-09-29T18:00:00.1239Z")

    assert with_offset["scheduledAt"] == "2026-09-29T18:00:00Z"
    assert with_fraction["scheduledAt"] == "2026-09-29T18:00:00.123Z"


@pytest.mark.parametrize("job_id", ["1", "x" * 24, "a" * 23, "a" * 25, "a" * 23 + "\n", "ü" * 24])
def test_a_malformed_id_is_400(api: Api, job_id: str) -> None:
    assert "24 hexadecimal digits" in error_of(api.get(f"/jobs/{job_id}"), 400)


def test_an_unknown_id_is_404(api: Api) -> None:
    assert "0" * 24 in error_of(api.get("/jobs/" + "0" * 24), 404)


def test_an_id_may_be_written_in_capitals(api: Api) -> None:
    job = api.submit()

    assert body_of(api.get(f"/jobs/{job['id'].upper()}")) == job


@pytest.mark.parametrize(
    "payload",
    [
        {"$set": {"a.b": 1}, "": "", "nul": "a\0b", "$": None},
        {"a.b": 1, "a": {"b": 2}},
        {"float": 1.0, "int": 1, "minus": -0.0, "tiny": 5e-324, "huge": 1.7976931348623157e308},
        {"min": -(2**63), "max": 2**63 - 1},
        {"b": 1, "a": 2, "_id": "x", "__proto__": {}},
        {"text": 'ü😀\u2028\ufeff\ufffe"\\/'},
        {},
    ],
)
def test_odd_payloads_round_trip(api: Api, payload: dict[str, Any]) -> None:
    job = api.submit(payload=payload)

    answer = api.get(f"/jobs/{job['id']}")

    assert json.dumps(body_of(answer)["payload"]) == json.dumps(payload)


keys = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner),
    max_leaves=20,
)


@FEWER
@given(st.dictionaries(keys, json_values))
def test_any_other_payload_round_trips(api: Api, payload: dict[str, Any]) -> None:
    job = api.submit(payload=payload)

    assert json.dumps(body_of(api.get(f"/jobs/{job['id']}"))["payload"]) == json.dumps(payload)


@FEWER
@given(st.binary() | st.text().map(str.encode))
def test_garbage_is_never_an_internal_error(api: Api, body: bytes) -> None:
    for path in ("/jobs", "/jobs/bulk"):
        assert api.send(path, body).status_code in (200, 400)


@FEWER
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from([*one_off(), "cron", "retry", "tags", "x"]), inner)
        ),
    )
)
def test_json_of_any_kind_is_never_an_internal_error(api: Api, value: Any) -> None:
    for path in ("/jobs", "/jobs/bulk"):
        for body in (json.dumps(value), json.dumps([value]), json.dumps(one_off(payload=value))):
            answer = api.send(path, body.encode())
            assert answer.status_code in (200, 201, 400)
            assert answer["Content-Type"] == JSON
