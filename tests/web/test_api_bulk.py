"""POST /jobs/bulk."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs.lifecycle import job_id_for
from tests.web.client import Api, body_of, error_of, one_off, recurring


def test_each_item_gets_its_own_result_in_order(api: Api) -> None:
    taken = api.submit()
    documents = [
        one_off(idempotencyKey="first"),
        one_off(priority="high"),
        one_off(idempotencyKey=taken["idempotencyKey"]),
        recurring(idempotencyKey="template"),
        "no job",
        one_off(idempotencyKey="first"),
    ]

    answer = api.post("/jobs/bulk", documents)

    assert answer.status_code == 200
    results = body_of(answer)
    assert [result["status"] for result in results] == [201, 400, 409, 201, 400, 409]
    assert results[0] == {"status": 201, "id": str(job_id_for("first"))}
    assert results[1]["error"].startswith("priority")
    assert results[2]["id"] == taken["id"]
    assert results[4]["error"].startswith("a job must be an object")
    assert results[5]["id"] == results[0]["id"]
    keys = {job["idempotencyKey"] for job in body_of(api.get("/jobs", tenantId="t"))}
    assert keys == {"first", "template", taken["idempotencyKey"]}


def test_a_thousand_jobs_are_stored_by_one_insert(
    api: Api, monkeypatch: pytest.MonkeyPatch, use_cases: Any
) -> None:
    inserted: list[int] = []
    insert_many = use_cases.repository.jobs._jobs.insert_many
    monkeypatch.setattr(
        use_cases.repository.jobs._jobs,
        "insert_many",
        lambda documents, **options: (
            inserted.append(len(documents)) or insert_many(documents, **options)
        ),
        raising=False,
    )

    results = body_of(api.post("/jobs/bulk", [one_off() for _ in range(1000)]))

    assert [result["status"] for result in results] == [201] * 1000
    assert inserted == [1000]


def test_no_items_are_no_results(api: Api) -> None:
    assert body_of(api.post("/jobs/bulk", [])) == []


def test_more_than_a_thousand_are_refused(api: Api) -> None:
    answer = api.post("/jobs/bulk", [one_off() for _ in range(1001)])

    assert "more than 1000" in error_of(answer, 400)
    assert body_of(api.get("/jobs", tenantId="t")) == []


@pytest.mark.parametrize("value", [{}, "jobs", 1, None])
def test_the_body_is_an_array(api: Api, value: object) -> None:
    answer = api.send("/jobs/bulk", json.dumps(value).encode())

    assert "must be an array" in error_of(answer, 400)


def test_a_bulk_may_be_larger_than_a_single_job(api: Api) -> None:
    large = [one_off(payload={"a": "x" * 900_000}) for _ in range(10)]

    assert {result["status"] for result in body_of(api.post("/jobs/bulk", large))} == {201}


def test_one_payload_is_still_limited_to_one_mebibyte(api: Api) -> None:
    documents = [one_off(payload={"a": "x" * (1 << 20)}), one_off()]

    results = body_of(api.post("/jobs/bulk", documents))

    assert results[0] == {"status": 400, "error": "payload must not be larger than 1 MiB"}
    assert results[1]["status"] == 201


def test_a_bulk_over_16_mebibytes_is_413(api: Api) -> None:
    answer = api.send("/jobs/bulk", b" " * ((16 << 20) + 1))

    assert "16 MiB" in error_of(answer, 413)
