"""How the operations of `/v1/executions` are described."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse

from jobs.api.operation import JOB_ID, json_response, list_parameters, operation
from jobs.api.query import EXECUTION_ID, EXECUTION_PARAMETERS, LOG_PARAMETERS
from jobs.api.schemas import reference

_SHOWN_ID: Final = f"{JOB_ID}-8f1c2b7a90d3e4f5"
_LISTED: Final[dict[str, Any]] = {
    "id": _SHOWN_ID,
    "jobId": JOB_ID,
    "tenantId": "tenant-a",
    "jobType": "http",
    "definition": "send-invoice",
    "attempt": 1,
    "executor": "executor-3k9x",
    "startedAt": "2026-09-29T18:00:00.007Z",
    "finishedAt": "2026-09-29T18:00:00.219Z",
    "durationMs": 212,
    "outcome": "failed",
    "responseCode": 503,
    "errorClass": "HttpStatus",
    "error": "the target answered 503",
}
_WHOLE: Final = {**_LISTED, "responseExcerpt": "try again later"}
_RUNNING: Final = {
    "id": _SHOWN_ID,
    "jobId": JOB_ID,
    "tenantId": "tenant-a",
    "jobType": "log-message",
    "attempt": 2,
    "executor": "executor-3k9x",
    "startedAt": "2026-09-29T18:00:00.007Z",
    "outcome": "running",
}
_LOG: Final = {
    "executionId": _SHOWN_ID,
    "lines": [
        {
            "at": "2026-09-29T18:00:00.008Z",
            "level": "INFO",
            "logger": "executor.handler",
            "message": "hello from the scheduler",
        }
    ],
}
_LOG_TEXT: Final = "2026-09-29T18:00:00.008Z INFO executor.handler: hello from the scheduler\n"
_BAD_ID: Final = {"error": "an execution id is a job id, a dash and 16 hexadecimal digits"}
_NO_EXECUTION: Final = json_response(
    "No attempt has this id, or its record was deleted.",
    reference("Error"),
    ("error", {"error": f"no attempt has the id {_SHOWN_ID}"}),
)
_ID: Final = OpenApiParameter(
    "id",
    type={"type": "string", "pattern": f"^{EXECUTION_ID}$"},
    location=OpenApiParameter.PATH,
    description="Id of the attempt: the job's, a dash and 16 hexadecimal digits.",
    examples=[OpenApiExample("id", value=_SHOWN_ID)],
)
_TAG: Final = "executions"

LIST_EXECUTIONS: Final = operation(
    "listExecutions",
    "List attempts",
    "Attempts that have ended, those that started last first, of a tenant or a job. What their"
    " targets answered is only in the single ones.",
    {
        200: json_response(
            "One page of them.",
            {"type": "array", "items": reference("Execution")},
            ("executions", [_LISTED]),
        )
    },
    (400, 500, 503),
    parameters=list_parameters(EXECUTION_PARAMETERS),
    error_examples={400: {"error": "tenantId is required without jobId"}},
    tag=_TAG,
)
GET_EXECUTION: Final = operation(
    "getExecution",
    "Get an attempt",
    "Also one that is running: the job shows its `executionId`.",
    {
        200: json_response(
            "The attempt.", reference("Execution"), ("ended", _WHOLE), ("running", _RUNNING)
        ),
        404: _NO_EXECUTION,
    },
    (400, 500, 503),
    parameters=[_ID],
    error_examples={400: _BAD_ID},
    tag=_TAG,
)
GET_EXECUTION_LOGS: Final = operation(
    "getExecutionLogs",
    "Read what an attempt logged",
    "The lines that its handler logged, by whichever logger, within a second also while it is"
    " running. They are bounded for each attempt and deleted after RETENTION_LOGS.",
    {
        (200, "application/json"): json_response(
            "The lines.", reference("ExecutionLog"), ("log", _LOG)
        ),
        (200, "text/plain"): OpenApiResponse(
            {"type": "string"}, "The lines.", [OpenApiExample("text", value=_LOG_TEXT)]
        ),
        404: _NO_EXECUTION,
    },
    (400, 500, 503),
    parameters=[
        _ID,
        *(each for each in list_parameters(LOG_PARAMETERS) if each.name in LOG_PARAMETERS),
    ],
    error_examples={400: _BAD_ID},
    tag=_TAG,
)
