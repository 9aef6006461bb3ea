"""The query parameters of a list: what each may hold, and how it is described."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlencode

from bson import ObjectId
from django.http import QueryDict
from rest_framework.request import Request

from jobs.api.cursor import cursor_of, place_of, position_of
from jobs.errors import InvalidJob, MalformedId
from jobs.executions import execution_id
from jobs.instants import parse_instant
from jobs.lifecycle import Outcome, Status, job_id_for
from jobs.repository.executions import Place
from jobs.repository.jobs import Position
from jobs.wording import unknown_name

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 5000
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_ID_LENGTH: Final = 24
EXECUTION_ID: Final = "[0-9a-fA-F]{24}-[0-9a-fA-F]{16}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One query parameter.

    `parse` turns its text into an argument of what reads the list, or raises ValueError with the
    end of a sentence that begins with the parameter's name.
    """

    argument: str
    parse: Callable[[str], Any]
    schema: Mapping[str, Any]
    description: str
    example: str | int
    required: bool = False


def parse_id(text: str) -> ObjectId:
    """A job id.

    Raises:
        MalformedId: not 24 hexadecimal digits.
    """
    if len(text) != _ID_LENGTH or not _HEX_DIGITS.issuperset(text):
        raise MalformedId("a job id has 24 hexadecimal digits")
    return ObjectId(text)


def parse_execution_id(text: str) -> tuple[ObjectId, str]:
    """The job's and the claim's part of an execution id.

    Raises:
        MalformedId: it has other parts.
    """
    if not re.fullmatch(EXECUTION_ID, text):
        raise MalformedId("an execution id is a job id, a dash and 16 hexadecimal digits")
    job_id, _, claim_id = text.partition("-")
    return ObjectId(job_id), claim_id.lower()


def list_arguments(query: QueryDict, parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """The arguments that a query string asks for. An empty value asks nothing.

    Args:
        query: the query string.
        parameters: those that the list takes. One with the argument `limit` is taken for granted.

    Raises:
        InvalidJob: a parameter is missing, unknown or not usable.
    """
    arguments: dict[str, Any] = {"limit": DEFAULT_LIMIT}
    for name, text in query.items():
        parameter = parameters.get(name)
        if parameter is None:
            raise InvalidJob("", unknown_name(name, parameters, "{} is not a parameter here"))
        if not text:
            continue
        try:
            arguments[parameter.argument] = parameter.parse(str(text))
        except ValueError as exc:
            raise InvalidJob(name, str(exc)) from exc
        except MalformedId as exc:
            raise InvalidJob(name, f"is malformed: {exc}") from exc
    for name, parameter in parameters.items():
        if parameter.required and parameter.argument not in arguments:
            raise InvalidJob(name, "is required")
    return arguments


def _one_of(options: type[StrEnum]) -> Callable[[str], StrEnum]:
    def parse(text: str) -> StrEnum:
        try:
            return options(text)
        except ValueError as exc:
            raise ValueError(f"must be one of {', '.join(options)}") from exc

    return parse


def _limit(text: str) -> int:
    # By the contract whatever is no positive number falls back, in silence.
    if not text.isascii() or not text.isdigit() or not text.strip("0"):
        return DEFAULT_LIMIT
    digits = text.lstrip("0")
    return MAX_LIMIT if len(digits) > len(str(MAX_LIMIT)) else min(int(digits), MAX_LIMIT)


TENANT: Final = Parameter("tenant_id", str, {"type": "string"}, "Whose.", "tenant-a", required=True)
STATUS: Final = Parameter(
    "status",
    _one_of(Status),
    {"type": "string", "enum": [str(status) for status in Status]},
    "Only jobs with this status.",
    "dlq",
)
JOB_TYPE: Final = Parameter(
    "job_type", str, {"type": "string"}, "Only those of this type.", "log-message"
)
TAG: Final = Parameter("tag", str, {"type": "string"}, "Only those that carry this tag.", "nightly")
DEFINITION: Final = Parameter(
    "definition", str, {"type": "string"}, "Only those made from this definition.", "send-invoice"
)
LIMIT: Final = Parameter(
    "limit",
    _limit,
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    f"At most so many; what is no positive number means {DEFAULT_LIMIT}, larger ones"
    f" {MAX_LIMIT}. A page ends sooner where payloads are large.",
    50,
)
CURSOR: Final = Parameter(
    "before",
    position_of,
    {"type": "string"},
    "Where to go on: taken from the `Link` header of the page before.",
    "AAABoilcCA8qsgvJ4M6veD-q6_k",
)


def instant(argument: str, description: str) -> Parameter:
    """A parameter that holds an instant."""
    schema = {"type": "string", "format": "date-time"}
    return Parameter(argument, parse_instant, schema, description, "2026-09-29T18:00:00Z")


TEMPLATE: Final = Parameter(
    "template_id",
    parse_id,
    {"type": "string", "pattern": "^[0-9a-fA-F]{24}$"},
    "Only runs of this template.",
    str(job_id_for("nightly-report")),
)
JOB_PARAMETERS: Final[Mapping[str, Parameter]] = {
    "tenantId": TENANT,
    "status": STATUS,
    "jobType": JOB_TYPE,
    "tag": TAG,
    "templateId": TEMPLATE,
    "limit": LIMIT,
    "cursor": CURSOR,
}
SCHEDULE_PARAMETERS: Final[Mapping[str, Parameter]] = {
    "tenantId": TENANT,
    "status": STATUS,
    "definition": DEFINITION,
    "tag": TAG,
    "from": instant("due_from", "Only those due at this instant or later."),
    "to": instant("due_before", "Only those due before this instant."),
    "limit": LIMIT,
    "cursor": CURSOR,
}
ONE_PARAMETERS: Final[Mapping[str, Parameter]] = {"tenantId": TENANT}
"""Of what is found by tenant and name."""
DEFINITION_PARAMETERS: Final[Mapping[str, Parameter]] = {
    "tenantId": TENANT,
    "jobType": JOB_TYPE,
    "tag": TAG,
    "limit": LIMIT,
    "cursor": CURSOR,
}

_PLACE: Final = cursor_of(
    (
        datetime(2026, 9, 29, 18, tzinfo=UTC),
        execution_id(job_id_for("test-job-1"), "8f1c2b7a90d3e4f5"),
    )
)
EXECUTION_PARAMETERS: Final[Mapping[str, Parameter]] = {
    "tenantId": replace(TENANT, required=False, description="Whose. Required without jobId."),
    "jobId": Parameter(
        "job_id", parse_id, TEMPLATE.schema, "Only attempts of this job.", TEMPLATE.example
    ),
    "templateId": TEMPLATE,
    "definition": DEFINITION,
    "jobType": JOB_TYPE,
    "outcome": Parameter(
        "outcome",
        _one_of(Outcome),
        {"type": "string", "enum": [str(outcome) for outcome in Outcome]},
        "Only those that ended so.",
        "failed",
    ),
    "from": instant("since", "Only those that started at this instant or later."),
    "to": instant("until", "Only those that started before this instant."),
    "limit": LIMIT,
    "cursor": replace(CURSOR, parse=place_of, example=_PLACE),
}


class LogFormat(StrEnum):
    """How what an attempt logged is answered."""

    JSON = "json"
    TEXT = "text"


LOG_PARAMETERS: Final[Mapping[str, Parameter]] = {
    "format": Parameter(
        "format",
        _one_of(LogFormat),
        {"type": "string", "enum": [str(form) for form in LogFormat]},
        "`text`: one line after the other, as text/plain. Absent: what Accept prefers, else JSON.",
        "text",
    )
}


def next_link(request: Request, position: Position | Place | None) -> dict[str, str]:
    """The `Link` header that leads to the page that begins there; none after the last page."""
    if position is None:
        return {}
    query = request.GET.dict() | {"cursor": cursor_of(position)}
    return {"Link": f'<{request.path}?{urlencode(query)}>; rel="next"'}
