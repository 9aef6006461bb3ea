"""The routes of the API: what comes in by HTTP, and what goes out."""

from __future__ import annotations

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from rest_framework.request import Request

from jobs import services
from jobs.api import openapi, pages
from jobs.api.answers import bulk_answer, created, json_answer
from jobs.api.body import read_json, read_json_if_any, read_many
from jobs.api.query import JOB_PARAMETERS, list_arguments, next_link, parse_id
from jobs.api.representation import job_body
from jobs.api.view import ApiView

# The documentation page needs its own style and nothing else.
_PAGE_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


class JobsView(ApiView):
    """/jobs"""

    @openapi.SUBMIT
    def post(self, request: Request) -> HttpResponse:
        return created(services.default().submit(read_json(request)))

    @openapi.LIST
    def get(self, request: Request) -> HttpResponse:
        arguments = list_arguments(request.GET, JOB_PARAMETERS)
        page = services.default().repository.jobs.page(**arguments)
        headers = next_link(request, page.next)
        return json_answer([job_body(job) for job in page.jobs], headers=headers)


class BulkView(ApiView):
    """/jobs/bulk"""

    @openapi.SUBMIT_MANY
    def post(self, request: Request) -> HttpResponse:
        return bulk_answer(services.default().submit_many(read_many(request)))


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
        paused = services.default().templates.pause(parse_id(id), read_json_if_any(request))
        return json_answer(job_body(paused))


class ResumeView(ApiView):
    """/jobs/{id}/resume"""

    @openapi.RESUME
    def post(self, request: Request, id: str) -> HttpResponse:
        return json_answer(job_body(services.default().templates.resume(parse_id(id))))


class RunView(ApiView):
    """/jobs/{id}/run"""

    @openapi.RUN
    def post(self, request: Request, id: str) -> HttpResponse:
        return created(services.default().templates.run_now(parse_id(id)))


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
