"""What the tests of the API speak: JSON, without a socket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from django.http import HttpResponse
from django.test import Client

JSON = "application/json"


class Api:
    """A client that speaks JSON."""

    def __init__(self) -> None:
        self.client = Client(raise_request_exception=False)

    def get(self, path: str, **parameters: object) -> HttpResponse:
        return self.client.get(path, parameters)

    def post(self, path: str, value: Any = None) -> HttpResponse:
        return self.send(path, json.dumps(value).encode() if value is not None else b"")

    def send(self, path: str, body: bytes, content_type: str = JSON) -> HttpResponse:
        """POST these very bytes."""
        # Django's client leaves the header out where there is no body.
        return self.client.generic("POST", path, body, content_type, CONTENT_TYPE=content_type)

    def call(
        self, method: str, path: str, value: Any = None, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """Any method, with a JSON body if there is a value."""
        body = json.dumps(value).encode() if value is not None else b""
        return self.client.generic(method, path, body, JSON, headers=headers, CONTENT_TYPE=JSON)

    def submit(self, **changes: object) -> dict[str, Any]:
        """Submit a job that is accepted; returns it."""
        answer = self.post("/jobs", one_off(**changes))
        assert answer.status_code == 201, answer.content
        return body_of(answer)


def one_off(**changes: object) -> dict[str, Any]:
    """A one-off job of tenant "t" with a key of its own; None removes a field."""
    document = {
        "idempotencyKey": uuid4().hex,
        "tenantId": "t",
        "jobType": "noop",
        "scheduledAt": "2026-09-29T18:00:00Z",
        **changes,
    }
    return {name: value for name, value in document.items() if value is not None}


def recurring(**changes: object) -> dict[str, Any]:
    """A template that is due at two each night."""
    return one_off(**{"scheduledAt": None, "cron": "0 2 * * *", **changes})


def body_of(answer: HttpResponse) -> Any:
    """The JSON of an answer."""
    assert answer["Content-Type"] == JSON
    return json.loads(answer.content)


def error_of(answer: HttpResponse, status: int) -> str:
    """The sentence of an error, which has nothing beside it."""
    assert answer.status_code == status, answer.content
    body = body_of(answer)
    assert list(body) == ["error"]
    assert isinstance(body["error"], str)
    return str(body["error"])
