"""Answers: always JSON, written by the one strict encoder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpResponse

from jobs.api.representation import job_body
from jobs.errors import DuplicateKey, InvalidJob, KeyCollision
from jobs.json_text import to_bytes
from jobs.lifecycle import Job
from jobs.services import Refusal


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


def created(job: Job, where: str = "/jobs") -> HttpResponse:
    """A job that was stored; its address is `where` and its id."""
    return json_answer(job_body(job), 201, {"Location": f"{where}/{job.id}"})


def bulk_answer(results: Iterable[Job | Refusal]) -> HttpResponse:
    """What became of each item of a bulk."""
    return json_answer([_bulk_result(result) for result in results])


def _bulk_result(result: Job | Refusal) -> dict[str, Any]:
    match result:
        case Job():
            return {"status": 201, "id": str(result.id)}
        case DuplicateKey():
            return {"status": 409, "error": str(result), "id": result.job_id}
        case KeyCollision():
            return {"status": 409, "error": str(result)}
        case InvalidJob():
            return {"status": 400, "error": str(result)}
