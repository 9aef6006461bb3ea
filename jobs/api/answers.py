"""Answers: always JSON, written by the one strict encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse

from jobs.json_text import to_bytes


def json_answer(
    value: Any, code: int = 200, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """A value as a JSON response."""
    body = to_bytes(value)
    response = HttpResponse(body, status=code, headers=headers, content_type="application/json")
    response["Content-Length"] = str(len(body))
    return response


def error_answer(
    problem: str, code: int, headers: Mapping[str, str] | None = None, **more: str
) -> HttpResponse:
    """An error: a sentence, and beside it what a program needs to go on (`id`, `status`)."""
    return json_answer({"error": problem, **more}, code, headers)
