"""Definitions for the tests of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse

from tests.web.client import Api, body_of

PATH = "/v1/definitions"
ONE = f"{PATH}/hook?tenantId=t"
SIGNING_KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BEARER = "Bearer t0ken-nobody-sees"
HTTP = {"url": "https://example.com/hook"}
SEALED = {**HTTP, "secret": SIGNING_KEY, "secretHeaders": {"Authorization": BEARER}}


def definition(**changes: Any) -> dict[str, Any]:
    """A definition of tenant "t" that is accepted; None removes a field."""
    document = {"name": "hook", "tenantId": "t", "jobType": "http", "delivery": HTTP, **changes}
    return {name: value for name, value in document.items() if value is not None}


def create(api: Api, **changes: Any) -> dict[str, Any]:
    answer = api.post(PATH, definition(**changes))
    assert answer.status_code == 201, answer.content
    return body_of(answer)


def put(api: Api, headers: Mapping[str, str] | None = None, **changes: Any) -> HttpResponse:
    return api.call("PUT", ONE, definition(**changes), headers)
