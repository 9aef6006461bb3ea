"""The query parameters of a list: what each may hold, and how it is described."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bson import ObjectId
from django.http import QueryDict

from jobs.api.cursor import position_of
from jobs.errors import InvalidJob, MalformedId
from jobs.lifecycle import Status, job_id_for

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 5000
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_ID_LENGTH: Final = 24


@dataclass(frozen=True, slots=True)
class Parameter:
    """One query parameter.

    `parse` turns its text into an argument of `JobStore.page`, or raises ValueError with the end
    of a sentence that begins with the parameter's name.
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


def list_arguments(query: QueryDict) -> dict[str, Any]:
    """The arguments of `JobStore.page` that a query string asks for. An empty value asks nothing.

    Raises:
        InvalidJob: a parameter is missing, unknown or not usable.
    """
    arguments: dict[str, Any] = {"limit": DEFAULT_LIMIT}
    for name, text in query.items():
        parameter = PARAMETERS.get(name)
        if parameter is None:
            raise InvalidJob("", _unknown_parameter(name))
        if not text:
            continue
        try:
            arguments[parameter.argument] = parameter.parse(str(text))
        except ValueError as exc:
            raise InvalidJob(name, str(exc)) from exc
        except MalformedId as exc:
            raise InvalidJob(name, f"is malformed: {exc}") from exc
    for name, parameter in PARAMETERS.items():
        if parameter.required and parameter.argument not in arguments:
            raise InvalidJob(name, "is required")
    return arguments


def _unknown_parameter(name: str) -> str:
    close = difflib.get_close_matches(name[:_ID_LENGTH], PARAMETERS, n=1)
    hint = f'; did you mean "{close[0]}"?' if close else ""
    return f'"{name[:_ID_LENGTH]}" is not a parameter of the list{hint}'


def _status(text: str) -> Status:
    try:
        return Status(text)
    except ValueError as exc:
        raise ValueError(f"must be one of {', '.join(Status)}") from exc


def _limit(text: str) -> int:
    # By the contract whatever is no positive number falls back, in silence.
    if not text.isascii() or not text.isdigit() or not text.strip("0"):
        return DEFAULT_LIMIT
    digits = text.lstrip("0")
    return MAX_LIMIT if len(digits) > len(str(MAX_LIMIT)) else min(int(digits), MAX_LIMIT)


PARAMETERS: Final[Mapping[str, Parameter]] = {
    "tenantId": Parameter(
        "tenant_id", str, {"type": "string"}, "Whose jobs and templates.", "tenant-a", required=True
    ),
    "status": Parameter(
        "status",
        _status,
        {"type": "string", "enum": [str(status) for status in Status]},
        "Only jobs with this status.",
        "dlq",
    ),
    "jobType": Parameter(
        "job_type", str, {"type": "string"}, "Only jobs of this type.", "log-message"
    ),
    "tag": Parameter("tag", str, {"type": "string"}, "Only jobs that carry this tag.", "nightly"),
    "templateId": Parameter(
        "template_id",
        parse_id,
        {"type": "string", "pattern": "^[0-9a-fA-F]{24}$"},
        "Only runs of this template.",
        str(job_id_for("nightly-report")),
    ),
    "limit": Parameter(
        "limit",
        _limit,
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        f"At most so many; what is no positive number means {DEFAULT_LIMIT}, larger ones"
        f" {MAX_LIMIT}. A page ends sooner where payloads are large.",
        50,
    ),
    "cursor": Parameter(
        "before",
        position_of,
        {"type": "string"},
        "Where to go on: taken from the `Link` header of the page before. Following `Link` visits"
        " each job exactly once, also while jobs are being submitted.",
        "AAABoilcCA8qsgvJ4M6veD-q6_k",
    ),
}
