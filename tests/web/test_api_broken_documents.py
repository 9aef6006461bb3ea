"""Documents that somebody edited by hand are shown as far as they can be, and break no list."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from bson.datetime_ms import DatetimeMS

from jobs.repository.documents import to_document
from jobs.services import Services
from tests.builders import a_job
from tests.web.client import Api, body_of


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"priority": "high"}, {"priority": "high"}),
        ({"status": "weird"}, {"status": "weird"}),
        ({"attempts": None}, {"attempts": None}),
        ({"scheduledAt": "soon"}, {"scheduledAt": "soon"}),
        ({"scheduledAt": DatetimeMS(10**15)}, {}),
        ({"timeoutSeconds": float("nan")}, {}),
        ({"tags": {"a": [datetime(2026, 1, 1, tzinfo=UTC)]}}, {}),
        ({"history": [{"number": 1}]}, {"history": [{"number": 1}]}),
        ({"retry": 5}, {"retry": 5}),
        ({"payload": {"no": "text"}}, {"payload": {"no": "text"}}),
        ({"lastError": b"\0"}, {}),
    ],
)
def test_a_broken_job_is_shown_with_what_is_wrong(
    api: Api, use_cases: Services, change: dict[str, Any], shown: dict[str, Any]
) -> None:
    job = a_job(tenant_id="t")
    collection = use_cases.repository.jobs._jobs
    collection.insert_one(to_document(job) | change)
    good = api.submit()

    listed = body_of(api.get("/jobs", tenantId="t"))
    got = body_of(api.get(f"/jobs/{job.id}"))

    assert [item["id"] for item in listed] == [good["id"], str(job.id)]
    assert listed[1] == got
    assert str(job.id) in got["unreadable"]
    assert {name: got[name] for name in shown} == shown
    assert got["idempotencyKey"] == job.idempotency_key
    assert not got.keys() & {"kind", "shard", "claimId", "_id"}


@pytest.mark.parametrize("text", ["{", "NaN", '{"a": 1e999}', "[" * 5000, '"\\ud800"', "1" * 5000])
def test_texts_that_are_not_json_are_shown_as_texts(
    api: Api, use_cases: Services, text: str
) -> None:
    job = a_job(tenant_id="t", payload=text, result=text)
    use_cases.repository.jobs.insert([job])

    body = body_of(api.get(f"/jobs/{job.id}"))

    expected = "\ud800" if "ud800" in text else text
    assert body["payload"] == body["result"] == expected


def test_what_has_no_place_in_the_order_is_not_listed(api: Api, use_cases: Services) -> None:
    good = api.submit()
    collection = use_cases.repository.jobs._jobs
    for change in (
        {"createdAt": "yesterday"},
        {"createdAt": None},
        {"createdAt": DatetimeMS(10**15)},
        {"_id": "text"},
    ):
        collection.insert_one(to_document(a_job(tenant_id="t")) | change)

    assert [job["id"] for job in body_of(api.get("/jobs", tenantId="t"))] == [good["id"]]
