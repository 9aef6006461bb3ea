"""/v1/schedules: one call at one moment."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from jobs.lifecycle import Status, job_id_for
from jobs.services import Services
from tests.web.client import Api, body_of, error_of, one_off, recurring
from tests.web.definitions import HTTP, create

PATH = "/v1/schedules"


@pytest.fixture(autouse=True)
def definitions(api: Api) -> None:
    create(api, tags=["hooks"])
    create(api, name="other", jobType="noop", delivery=None)


def schedule(**changes: Any) -> dict[str, Any]:
    """A schedule of tenant "t" that is accepted; None removes a field."""
    return one_off(**{"jobType": None, "definition": "hook", **changes})


def submit(api: Api, **changes: Any) -> dict[str, Any]:
    answer = api.post(PATH, schedule(**changes))
    assert answer.status_code == 201, answer.content
    return body_of(answer)


def keys(api: Api, **parameters: Any) -> list[str]:
    """The keys of all pages of a list."""
    answer = api.get(PATH, tenantId="t", **parameters)
    found = [job["idempotencyKey"] for job in body_of(answer)]
    while answer.has_header("Link"):
        answer = api.get(answer["Link"][1:].split(">")[0])
        found += [job["idempotencyKey"] for job in body_of(answer)]
    return found


def test_a_schedule_is_a_job_in_its_minute(api: Api) -> None:
    answer = api.post(
        PATH,
        schedule(
            idempotencyKey="invoice-17",
            scheduledAt="2027-01-02T03:04:59.5+01:00",
            payload={"invoiceId": 17},
            delivery={"headers": {"X-A": "1"}},
            tags=["january"],
        ),
    )

    body = body_of(answer)
    assert answer.status_code == 201
    assert answer["Location"] == f"{PATH}/{job_id_for('invoice-17')}"
    assert body["status"] == "pending"
    assert (body["scheduledAt"], body["bucket"]) == (
        "2027-01-02T02:04:59.500Z",
        "2027-01-02T02:04:00Z",
    )
    assert body["delivery"] == {**HTTP, "headers": {"X-A": "1"}}
    assert body["tags"] == ["hooks", "january"]
    assert body_of(api.get(f"{PATH}/{body['id']}")) == body
    assert body_of(api.get(f"/jobs/{body['id']}")) == body


def test_a_used_key_names_its_holder(api: Api) -> None:
    job = api.submit(idempotencyKey="k")

    refused = api.post(PATH, schedule(idempotencyKey="k"))

    assert refused.status_code == 409
    assert body_of(refused)["id"] == job["id"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"definition": None}, "definition is required"),
        ({"scheduledAt": None}, "scheduledAt is required"),
        ({"idempotencyKey": None}, "idempotencyKey is required"),
        ({"tenantId": None}, "tenantId is required"),
        ({"cron": "* * * * *", "scheduledAt": None}, "cron is not for schedules"),
        ({"timezone": "UTC"}, "timezone is not for schedules"),
        ({"definition": "nope"}, "definition names none of this tenant"),
        ({"jobType": "noop"}, "jobType must be http"),
    ],
)
def test_what_cannot_be_used_is_refused(api: Api, changes: dict[str, Any], problem: str) -> None:
    assert problem in error_of(api.post(PATH, schedule(**changes)), 400)


def test_many_are_judged_one_by_one(api: Api) -> None:
    submit(api, idempotencyKey="used")

    results = body_of(
        api.post(
            PATH + "/bulk",
            [
                schedule(idempotencyKey="a"),
                schedule(idempotencyKey="used"),
                schedule(definition="nope"),
                schedule(definition="other", idempotencyKey="b"),
                one_off(),
                7,
            ],
        )
    )

    assert [each["status"] for each in results] == [201, 409, 400, 201, 400, 400]
    assert sorted(keys(api)) == ["a", "b", "used"]
    assert "array" in error_of(api.post(PATH + "/bulk", {}), 400)


def test_a_list_has_schedules_only_the_latest_due_first(api: Api) -> None:
    for minute in range(5):
        submit(api, idempotencyKey=f"k{minute}", scheduledAt=f"2027-01-01T00:0{minute}:00Z")
    api.submit()
    template = body_of(api.post("/jobs", recurring(jobType=None, definition="hook")))
    api.post(f"/jobs/{template['id']}/run")

    assert keys(api) == keys(api, limit=2) == ["k4", "k3", "k2", "k1", "k0"]


def test_a_list_is_filtered(api: Api, use_cases: Services) -> None:
    due = "2027-01-01T00:00:00Z"
    submit(api, idempotencyKey="early", scheduledAt="2026-12-31T23:59:59.999Z", tags=["x"])
    submit(api, idempotencyKey="on-time", scheduledAt=due)
    submit(api, idempotencyKey="late", scheduledAt="2027-01-01T00:00:01Z", definition="other")
    done = submit(api, idempotencyKey="cancelled", scheduledAt=due)
    assert api.call("DELETE", f"{PATH}/{done['id']}").status_code == 200

    assert keys(api, definition="other") == ["late"]
    assert keys(api, tag="x") == ["early"]
    assert keys(api, tag="hooks", definition="hook", status="pending") == ["on-time", "early"]
    assert keys(api, status="cancelled") == ["cancelled"]
    assert set(keys(api, **{"from": due, "to": "2027-01-01T00:00:01Z"})) == {"on-time", "cancelled"}
    assert keys(api, to=due) == ["early"]
    assert "from must be RFC 3339" in error_of(api.get(PATH, tenantId="t", **{"from": "x"}), 400)
    assert 'did you mean "definition"' in error_of(api.get(PATH, tenantId="t", definitoin="x"), 400)
    assert error_of(api.get(PATH), 400) == "tenantId is required"


def test_a_pending_schedule_gets_another_time(api: Api, use_cases: Services) -> None:
    job = submit(api)

    moved = api.call("PATCH", f"{PATH}/{job['id']}", {"scheduledAt": "2999-01-01T00:00:30Z"})

    body = body_of(moved)
    assert (moved.status_code, body["status"]) == (200, "pending")
    assert (body["scheduledAt"], body["bucket"]) == ("2999-01-01T00:00:30Z", "2999-01-01T00:00:00Z")
    assert body_of(api.get(f"{PATH}/{job['id']}")) == body


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, "scheduledAt is required"),
        ({"scheduledAt": "tomorrow"}, "scheduledAt must be RFC 3339"),
        ({"scheduledAt": "2999-01-01T00:00:00Z", "priority": 1}, "is not a field of a change"),
        ([], "must be an object"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(api: Api, change: Any, problem: str) -> None:
    job = submit(api)

    assert problem in error_of(api.call("PATCH", f"{PATH}/{job['id']}", change), 400)
    assert body_of(api.get(f"{PATH}/{job['id']}")) == job


@pytest.mark.parametrize("status", [each for each in Status if each is not Status.PENDING])
def test_only_a_pending_schedule_gets_another_time(
    api: Api, use_cases: Services, status: Status
) -> None:
    job = submit(api)
    use_cases.repository.jobs._jobs.update_one(
        {"_id": ObjectId(job["id"])}, {"$set": {"status": str(status)}}
    )

    refused = api.call("PATCH", f"{PATH}/{job['id']}", {"scheduledAt": "2999-01-01T00:00:00Z"})

    assert refused.status_code == 409
    assert body_of(refused)["status"] == status


def test_a_schedule_is_cancelled_once(api: Api) -> None:
    job = submit(api)

    cancelled = api.call("DELETE", f"{PATH}/{job['id']}")
    again = api.call("DELETE", f"{PATH}/{job['id']}")

    assert (cancelled.status_code, body_of(cancelled)["status"]) == (200, "cancelled")
    assert (again.status_code, body_of(again)["status"]) == (409, "cancelled")
    assert body_of(api.get(f"{PATH}/{job['id']}"))["status"] == "cancelled"


def test_what_is_no_schedule_is_not_found(api: Api) -> None:
    job = api.submit()
    template = body_of(api.post("/jobs", recurring(jobType=None, definition="hook")))
    change = {"scheduledAt": "2999-01-01T00:00:00Z"}

    for job_id in (job["id"], template["id"], "0" * 24):
        assert error_of(api.get(f"{PATH}/{job_id}"), 404)
        assert error_of(api.call("PATCH", f"{PATH}/{job_id}", change), 404)
        assert error_of(api.call("DELETE", f"{PATH}/{job_id}"), 404)
    assert body_of(api.get(f"/jobs/{job['id']}"))["status"] == "pending"
    assert error_of(api.get(f"{PATH}/xyz"), 400)


def test_a_rescheduled_one_is_dispatched_at_its_new_time(api: Api, use_cases: Services) -> None:
    job = submit(api, scheduledAt="2999-01-01T00:00:00Z")
    now = use_cases.repository.clock.now()
    due_at = (now - timedelta(seconds=1)).isoformat()
    assert use_cases.repository.dispatch.due("http", now=now, limit=10) == []

    api.call("PATCH", f"{PATH}/{job['id']}", {"scheduledAt": due_at})

    (due,) = use_cases.repository.dispatch.due("http", now=now, limit=10)
    assert str(due.id) == job["id"]
    assert due.ready_at <= now
