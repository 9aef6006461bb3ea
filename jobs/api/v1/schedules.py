"""/v1/schedules"""

from __future__ import annotations

from typing import Final

from django.http import HttpResponse
from rest_framework.request import Request

from jobs import services
from jobs.api.answers import bulk_answer, created, json_answer
from jobs.api.body import read_json, read_many
from jobs.api.query import SCHEDULE_PARAMETERS, list_arguments, next_link, parse_id
from jobs.api.representation import job_body
from jobs.api.v1 import openapi
from jobs.api.view import ApiView

_WHERE: Final = "/v1/schedules"


class SchedulesView(ApiView):
    """/v1/schedules"""

    @openapi.SCHEDULE
    def post(self, request: Request) -> HttpResponse:
        return created(services.default().schedule(read_json(request)), _WHERE)

    @openapi.LIST_SCHEDULES
    def get(self, request: Request) -> HttpResponse:
        arguments = list_arguments(request.GET, SCHEDULE_PARAMETERS)
        page = services.default().repository.jobs.schedules(**arguments)
        headers = next_link(request, page.next)
        return json_answer([job_body(job) for job in page.jobs], headers=headers)


class ScheduleBulkView(ApiView):
    """/v1/schedules/bulk"""

    @openapi.SCHEDULE_MANY
    def post(self, request: Request) -> HttpResponse:
        return bulk_answer(services.default().schedule_many(read_many(request)))


class ScheduleView(ApiView):
    """/v1/schedules/{id}"""

    @openapi.GET_SCHEDULE
    def get(self, request: Request, id: str) -> HttpResponse:
        return json_answer(job_body(services.default().get_schedule(parse_id(id))))

    @openapi.RESCHEDULE
    def patch(self, request: Request, id: str) -> HttpResponse:
        job_id = parse_id(id)
        moved = services.default().reschedule(job_id, read_json(request))
        return json_answer(job_body(moved))

    @openapi.CANCEL_SCHEDULE
    def delete(self, request: Request, id: str) -> HttpResponse:
        return json_answer(job_body(services.default().cancel_schedule(parse_id(id))))
