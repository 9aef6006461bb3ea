"""/v1/executions"""

from __future__ import annotations

from typing import Final

from bson import ObjectId
from django.http import HttpResponse
from rest_framework.request import Request

from jobs import services
from jobs.api.answers import json_answer
from jobs.api.query import (
    EXECUTION_PARAMETERS,
    LOG_PARAMETERS,
    LogFormat,
    list_arguments,
    next_link,
    parse_execution_id,
)
from jobs.api.representation import execution_body, log_body, log_text, running_body
from jobs.api.v1 import openapi_executions as openapi
from jobs.api.view import ApiView
from jobs.errors import ExecutionNotFound, InvalidJob, UnreadableJob
from jobs.executions import AttemptLog, Execution, execution_id
from jobs.lifecycle import Job, Status
from jobs.repository.executions import Wanted

_NOTHING: Final = AttemptLog([], is_truncated=False)
_MEDIA_TYPES: Final = {"application/json": LogFormat.JSON, "text/plain": LogFormat.TEXT}


class ExecutionsView(ApiView):
    """/v1/executions"""

    @openapi.LIST_EXECUTIONS
    def get(self, request: Request) -> HttpResponse:
        arguments = list_arguments(request.GET, EXECUTION_PARAMETERS)
        limit, before = arguments.pop("limit"), arguments.pop("before", None)
        wanted = Wanted(**arguments)
        if wanted.tenant_id is None and wanted.job_id is None:
            raise InvalidJob("tenantId", "is required without jobId")
        executions = services.default().repository.executions
        page, following = executions.page(wanted, limit=limit, before=before)
        bodies = [execution_body(execution, whole=False) for execution in page]
        return json_answer(bodies, headers=next_link(request, following))


class ExecutionView(ApiView):
    """/v1/executions/{id}"""

    @openapi.GET_EXECUTION
    def get(self, request: Request, id: str) -> HttpResponse:
        found = _find(*parse_execution_id(id))
        if isinstance(found, Execution):
            return json_answer(execution_body(found, whole=True))
        return json_answer(running_body(found))


class ExecutionLogsView(ApiView):
    """/v1/executions/{id}/logs"""

    @openapi.GET_EXECUTION_LOGS
    def get(self, request: Request, id: str) -> HttpResponse:
        wanted = list_arguments(request.GET, LOG_PARAMETERS).get("format") or _preferred(request)
        job_id, claim_id = parse_execution_id(id)
        shown_id = execution_id(job_id, claim_id)
        log = services.default().repository.attempt_logs.find(shown_id)
        if log is None:
            _find(job_id, claim_id)
            log = _NOTHING
        if wanted is LogFormat.TEXT:
            return HttpResponse(log_text(log), content_type="text/plain; charset=utf-8")
        return json_answer(log_body(shown_id, log))


def _find(job_id: ObjectId, claim_id: str) -> Execution | Job:
    """An attempt, or the job that is making it.

    Raises:
        ExecutionNotFound: there is neither.
    """
    repository = services.default().repository
    # Before the record, which is there when the job no longer runs.
    try:
        job = repository.jobs.find(job_id)
    except UnreadableJob:
        job = None
    if execution := repository.executions.find(execution_id(job_id, claim_id)):
        return execution
    if job is None or job.status is not Status.RUNNING or job.claim_id != claim_id:
        raise ExecutionNotFound(f"no attempt has the id {execution_id(job_id, claim_id)}")
    return job


def _preferred(request: Request) -> LogFormat:
    media_type = request._request.get_preferred_type(list(_MEDIA_TYPES))
    return _MEDIA_TYPES.get(media_type or "", LogFormat.JSON)
