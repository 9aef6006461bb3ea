"""The routes of the API: what comes in by HTTP, and what goes out."""

from __future__ import annotations

from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from rest_framework.request import Request
from rest_framework.views import APIView

from jobs import services
from jobs.api import openapi, pages
from jobs.api.answers import json_answer
from jobs.api.body import BULK_MAX_BYTES, read_json
from jobs.api.cursor import cursor_of
from jobs.api.query import list_arguments, parse_id
from jobs.api.representation import job_body
from jobs.errors import DuplicateKey, InvalidJob, KeyCollision
from jobs.json_text import kind_of
from jobs.lifecycle import Job
from jobs.services import Refusal

MAX_BULK: Final = 1000
# The documentation page needs its own style and nothing else.
_PAGE_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


class ApiView(APIView):
    """A view that answers in JSON, whatever the client accepts."""

    http_method_names = ("get", "head", "post")
    # What REST framework would add to every answer; `Allow` comes with 405.
    default_response_headers: ClassVar[dict[str, str]] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Nothing to negotiate, and nobody to authenticate yet."""


class JobsView(ApiView):
    """/jobs"""

    @openapi.SUBMIT
    def post(self, request: Request) -> HttpResponse:
        return _created(services.default().submit(read_json(request)))

    @openapi.LIST
    def get(self, request: Request) -> HttpResponse:
        arguments = list_arguments(request.GET)
        page = services.default().repository.jobs.page(**arguments)
        headers = {}
        if page.next is not None:
            query = request.GET.dict() | {"cursor": cursor_of(page.next)}
            headers["Link"] = f'<{request.path}?{urlencode(query)}>; rel="next"'
        return json_answer([job_body(job) for job in page.jobs], headers=headers)


class BulkView(ApiView):
    """/jobs/bulk"""

    @openapi.SUBMIT_MANY
    def post(self, request: Request) -> HttpResponse:
        documents = read_json(request, BULK_MAX_BYTES)
        if not isinstance(documents, list):
            raise InvalidJob("body", f"must be an array of jobs, not {kind_of(documents)}")
        if len(documents) > MAX_BULK:
            raise InvalidJob("body", f"must not hold more than {MAX_BULK} jobs")
        results = services.default().submit_many(documents)
        return json_answer([_bulk_result(result) for result in results])


class JobView(ApiView):
    """/jobs/{id}"""

    @openapi.GET
    def get(self, request: Request, id: str) -> HttpResponse:
        return json_answer(job_body(services.default().repository.jobs.read(parse_id(id))))


class CancelView(ApiView):
    """/jobs/{id}/cancel"""

    @openapi.CANCEL
    def post(self, request: Request, id: str) -> HttpResponse:
        return json_answer(job_body(services.default().cancel(parse_id(id))))


class RedriveView(ApiView):
    """/jobs/{id}/redrive"""

    @openapi.REDRIVE
    def post(self, request: Request, id: str) -> HttpResponse:
        return json_answer(job_body(services.default().redrive(parse_id(id))))


class PauseView(ApiView):
    """/jobs/{id}/pause"""

    @openapi.PAUSE
    def post(self, request: Request, id: str) -> HttpResponse:
        return json_answer(job_body(services.default().pause(parse_id(id))))


class ResumeView(ApiView):
    """/jobs/{id}/resume"""

    @openapi.RESUME
    def post(self, request: Request, id: str) -> HttpResponse:
        return json_answer(job_body(services.default().resume(parse_id(id))))


class RunView(ApiView):
    """/jobs/{id}/run"""

    @openapi.RUN
    def post(self, request: Request, id: str) -> HttpResponse:
        return _created(services.default().run_now(parse_id(id)))


class HealthView(ApiView):
    """/healthz"""

    @openapi.HEALTH
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse("ok", content_type="text/plain; charset=utf-8")


class OpenApiView(ApiView):
    """/openapi.json"""

    @openapi.OPENAPI
    def get(self, request: Request) -> HttpResponse:
        return json_answer(openapi.document())


class DocsView(ApiView):
    """/docs"""

    @openapi.DOCS
    def get(self, request: Request) -> HttpResponse:
        page = render(request._request, "api/docs.html", pages.docs_context(openapi.document()))
        page["Content-Security-Policy"] = _PAGE_POLICY
        return page


def _created(job: Job) -> HttpResponse:
    return json_answer(job_body(job), 201, {"Location": f"/jobs/{job.id}"})


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
