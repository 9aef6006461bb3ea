"""Pausing a template with a reason and an end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.web.client import Api, body_of, error_of, recurring


def test_a_pause_tells_why_until_when_and_by_whom(api: Api) -> None:
    template = body_of(api.post("/jobs", recurring()))
    path = f"/jobs/{template['id']}"

    paused = body_of(
        api.post(f"{path}/pause", {"reason": "a move", "until": "2999-01-01T01:00:00+01:00"})
    )
    resumed = body_of(api.post(f"{path}/resume"))

    assert paused["status"] == "paused"
    assert paused["pausedReason"] == "a move"
    assert paused["pausedUntil"] == "2999-01-01T00:00:00Z"
    assert paused["pausedBy"] == "API client"
    assert paused["pausedAt"] == paused["updatedAt"]
    assert not [name for name in resumed if name.startswith("paused")]


def test_a_cancelled_template_is_no_longer_paused(api: Api) -> None:
    template = body_of(api.post("/jobs", recurring()))
    api.post(f"/jobs/{template['id']}/pause", {"reason": "a move"})

    cancelled = body_of(api.post(f"/jobs/{template['id']}/cancel"))

    assert not [name for name in cancelled if name.startswith("paused")]


@pytest.mark.parametrize("body", [{}, {"reason": ""}], ids=json.dumps)
def test_a_reason_may_be_empty(api: Api, body: dict[str, Any]) -> None:
    template = body_of(api.post("/jobs", recurring()))

    paused = body_of(api.post(f"/jobs/{template['id']}/pause", body))

    assert paused["status"] == "paused"
    assert "pausedReason" not in paused


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"reason": "x" * 1001}, "reason must not be longer than 1000 characters"),
        ({"reason": 5}, "reason must be a string"),
        ({"until": "2020-01-01T00:00:00Z"}, "until must be in the future"),
        ({"until": "tomorrow"}, "until must be RFC 3339"),
        ({"untill": "2999-01-01T00:00:00Z"}, 'did you mean "until"'),
        ([], "a pause must be an object"),
    ],
    ids=str,
)
def test_a_bad_pause_is_refused_and_names_its_field(api: Api, body: Any, problem: str) -> None:
    template = body_of(api.post("/jobs", recurring()))

    answer = api.post(f"/jobs/{template['id']}/pause", body)

    assert problem in error_of(answer, 400)
    assert body_of(api.get(f"/jobs/{template['id']}"))["status"] == "pending"


def test_a_body_that_is_no_json_is_refused(api: Api) -> None:
    template = body_of(api.post("/jobs", recurring()))
    path = f"/jobs/{template['id']}/pause"

    assert "JSON" in error_of(api.send(path, b"{"), 400)
    assert "application/json" in error_of(api.send(path, b"a=1", "text/plain"), 415)
