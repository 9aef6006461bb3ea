"""Requests have an id, and what they make keeps it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.web.client import Api, body_of, one_off, recurring

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def submitted(api: Api, **headers: str) -> tuple[str, dict[str, Any]]:
    """What POST /jobs answers in the header, and the job."""
    answer = api.call("POST", "/jobs", one_off(), headers=headers)
    assert answer.status_code == 201
    return answer["X-Request-Id"], body_of(answer)


@pytest.mark.parametrize("sent", ["a", "01J9-Z.y_~:/+=@", "Root=1-67891233-abcdef", "x" * 128])
def test_the_id_that_a_client_sends_is_answered_and_kept(api: Api, sent: str) -> None:
    answered, job = submitted(api, **{"X-Request-Id": sent})

    assert answered == sent
    assert job["requestId"] == sent
    assert body_of(api.get(f"/jobs/{job['id']}"))["requestId"] == sent


@pytest.mark.parametrize("sent", ["", " ", "x" * 129, 'a"b', "a b", "ä", "a;b", "a\tb", "<b>"])
def test_an_id_that_might_do_harm_is_replaced(api: Api, sent: str) -> None:
    answered, job = submitted(api, **{"X-Request-Id": sent})

    assert len(answered) == 16
    assert int(answered, 16) >= 0
    assert job["requestId"] == answered


def test_requests_without_an_id_get_different_ones(api: Api) -> None:
    assert submitted(api)[0] != submitted(api)[0]


@pytest.mark.parametrize("path", ["/jobs/none", "/nothing", "/healthz", "/jobs", "/docs"])
def test_every_answer_has_the_id(api: Api, path: str) -> None:
    answer = api.call("GET", path, headers={"X-Request-Id": "mine"})

    assert answer["X-Request-Id"] == "mine"


def test_all_jobs_of_a_bulk_share_the_id(api: Api) -> None:
    headers = {"X-Request-Id": "bulk-1", "traceparent": TRACEPARENT}
    results = body_of(api.call("POST", "/jobs/bulk", [one_off(), one_off()], headers=headers))

    jobs = [body_of(api.get(f"/jobs/{each['id']}")) for each in results]
    assert [job["requestId"] for job in jobs] == ["bulk-1", "bulk-1"]
    assert [job["traceparent"] for job in jobs] == [TRACEPARENT, TRACEPARENT]


def test_a_run_has_the_id_of_who_asked_for_it_not_of_the_template(api: Api) -> None:
    made = {"X-Request-Id": "made", "traceparent": TRACEPARENT}
    template = body_of(api.call("POST", "/jobs", recurring(), headers=made))

    run = body_of(
        api.call("POST", f"/jobs/{template['id']}/run", headers={"X-Request-Id": "asked"})
    )

    assert template["requestId"] == "made"
    assert run["requestId"] == "asked"
    assert "traceparent" not in run


@pytest.mark.parametrize("flags", ["00", "01"])
def test_a_clients_trace_is_kept_in_the_job(api: Api, flags: str) -> None:
    sent = TRACEPARENT[:-2] + flags

    _, job = submitted(api, traceparent=sent)

    assert job["traceparent"] == sent


@pytest.mark.parametrize(
    "sent", ["", "00-0-0-01", TRACEPARENT.upper(), TRACEPARENT + "-x", "00-" + "0" * 32, "x" * 5000]
)
def test_a_malformed_trace_is_ignored(api: Api, sent: str) -> None:
    _, job = submitted(api, traceparent=sent)

    assert "traceparent" not in job


def test_a_line_in_debug_says_what_was_answered(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="jobs.api.middleware")

    api.get("/jobs/none")

    [record] = [each for each in caplog.records if each.name == "jobs.api.middleware"]
    assert record.getMessage() == "GET /jobs/{id}: 400"
    assert vars(record).items() >= {"event": "request.answered", "status": 400}.items()
