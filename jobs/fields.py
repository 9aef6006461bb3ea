"""The fields of a submitted job: what each may hold, and how it is described.

`FIELDS` says everything once: the checks, the hint at a misspelling and the OpenAPI document all
read it. The checks are plain functions, as a bulk of 1,000 jobs must not take longer to check than
to store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from jobs.cron import EXPRESSION_LENGTH
from jobs.instants import parse_instant
from jobs.json_text import dumps, kind_of
from jobs.lifecycle import DEFAULT_MAX_ATTEMPTS, MAX_TIMEOUT_SECONDS, CatchUp, Overlap
from jobs.payload import payload_text
from jobs.retry import POLICY_SCHEMA, RetryPolicy

KEY_LENGTH: Final = 255
TAG_LENGTH: Final = 100
MAX_TAGS: Final = 20
_INT32: Final = range(-(1 << 31), 1 << 31)
# Control characters, and surrogates, which have no form in UTF-8.
_UNFIT: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_LONGEST_SHOWN: Final = 60

_Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a submitted job.

    `check` turns its decoded value into what the job keeps as `attribute`, or raises ValueError
    with the end of a sentence that begins with the field's name.
    """

    attribute: str
    check: Callable[[Any], Any]
    schema: _Schema
    required: bool = False
    cron_only: bool = False


def shown(value: object) -> str:
    """A decoded value for an error text: itself where it is short, else what kind it is."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        text = dumps(value[:_LONGEST_SHOWN] if isinstance(value, str) else value)
        return text if len(text) <= 2 * _LONGEST_SHOWN else kind_of(value)
    return kind_of(value)


def _string(value: object) -> str:
    if type(value) is not str:
        raise ValueError(f"must be a string, not {kind_of(value)}")
    return value


def _key(value: object, longest: int = KEY_LENGTH) -> str:
    text = _string(value)
    if not text or text.isspace():
        raise ValueError("must not be empty")
    if len(text) > longest:
        raise ValueError(f"must not be longer than {longest} characters")
    if _UNFIT.search(text):
        raise ValueError("must not hold NUL, other control characters or lone surrogates")
    return text


def _instant(value: object) -> datetime:
    return parse_instant(_string(value))


def _int32(value: object) -> int:
    # `type`, as True is an instance of int. 1.0 is no integer either: it would read back as 1.
    if type(value) is not int or value not in _INT32:
        raise ValueError(f"must be an integer of 32 bits, not {shown(value)}")
    return value


def _max_attempts(value: object) -> int:
    number = _int32(value)
    return number if number > 0 else DEFAULT_MAX_ATTEMPTS


def _tags(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"must be an array of strings, not {kind_of(value)}")
    if len(value) > MAX_TAGS:
        raise ValueError(f"must not be more than {MAX_TAGS}")
    tags = []
    for position, item in enumerate(value):
        try:
            tags.append(_key(item, TAG_LENGTH))
        except ValueError as exc:
            raise ValueError(f"item {position} {exc}") from exc
    if len(set(tags)) < len(tags):
        raise ValueError("must differ from each other")
    return tuple(tags)


def _retry(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"must be an object, not {kind_of(value)}")
    RetryPolicy.from_document(value)
    return value


def _timeout_seconds(value: Any) -> Any:
    if type(value) in (int, float) and 0 < value <= MAX_TIMEOUT_SECONDS:
        return value
    raise ValueError(
        f"must be a number above 0 and up to {MAX_TIMEOUT_SECONDS} (30 days), not {shown(value)}"
    )


def _one_of(options: type[StrEnum]) -> Callable[[object], StrEnum]:
    by_name = {str(option): option for option in options}

    def check(value: object) -> StrEnum:
        if type(value) is str and value in by_name:
            return by_name[value]
        raise ValueError(f"must be one of {', '.join(by_name)}, not {shown(value)}")

    return check


def _key_schema(description: str, example: str) -> _Schema:
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": KEY_LENGTH,
        "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$",
        "description": description,
        "examples": [example],
    }


def _int32_schema(description: str, example: int, default: int) -> _Schema:
    return {
        "type": "integer",
        "format": "int32",
        "minimum": _INT32.start,
        "maximum": _INT32.stop - 1,
        "default": default,
        "description": description,
        "examples": [example],
    }


FIELDS: Final[Mapping[str, Field]] = {
    "idempotencyKey": Field(
        "idempotency_key",
        _key,
        _key_schema(
            "Globally unique, also over tenants. A used key is answered with 409 and the job that"
            " holds it, so a request may be repeated. The runs of a template derive their keys"
            " from its own.",
            "test-job-1",
        ),
        required=True,
    ),
    "tenantId": Field(
        "tenant_id",
        _key,
        _key_schema("Groups jobs for listing.", "tenant-a"),
        required=True,
    ),
    "jobType": Field(
        "job_type",
        _key,
        {
            "type": "string",
            "description": "Selects the handler. A type without a handler is refused, and the"
            " error lists the known ones.",
            "examples": ["log-message"],
        },
        required=True,
    ),
    "scheduledAt": Field(
        "scheduled_at",
        _instant,
        {
            "type": "string",
            "format": "date-time",
            "description": "When the job becomes due: RFC 3339 with an offset or Z, in the years"
            " 1970 to 9999, kept in milliseconds. A past instant is due at once. Required without"
            " cron, refused with it.",
            "examples": ["2026-09-29T18:00:00Z"],
        },
    ),
    "cron": Field(
        "cron",
        _string,
        {
            "type": "string",
            "maxLength": EXPRESSION_LENGTH,
            "description": "Five fields: minute, hour, day of month, month, day of week. Makes the"
            " job a template, which spawns a run at each occurrence and never runs itself.",
            "examples": ["0 2 * * *"],
        },
    ),
    "timezone": Field(
        "timezone",
        _string,
        {
            "type": "string",
            "default": "UTC",
            "description": "IANA name of the zone in which cron is read. Only with cron.",
            "examples": ["Europe/Berlin"],
        },
        cron_only=True,
    ),
    "catchUp": Field(
        "catch_up",
        _one_of(CatchUp),
        {
            "type": "string",
            "enum": [str(option) for option in CatchUp],
            "default": str(CatchUp.ONE),
            "description": "What becomes of occurrences that were missed: one run for all of them,"
            " all of them, or none. Only with cron.",
            "examples": ["one"],
        },
        cron_only=True,
    ),
    "overlap": Field(
        "overlap",
        _one_of(Overlap),
        {
            "type": "string",
            "enum": [str(option) for option in Overlap],
            "default": str(Overlap.ALLOW),
            "description": "Whether a run is spawned while an earlier one is not over. Only with"
            " cron.",
            "examples": ["allow"],
        },
        cron_only=True,
    ),
    "payload": Field(
        "payload",
        payload_text,
        {
            "type": "object",
            "additionalProperties": True,
            "description": "Passed to the handler, unchanged: up to 50 levels, 1 MiB and integers"
            " of 64 bits. log-message needs `message`; flaky takes `failRate`, slow `sleepMs`.",
            "examples": [{"message": "hello from the scheduler"}],
        },
    ),
    "priority": Field(
        "priority", _int32, _int32_schema("Higher runs first among due jobs.", 5, default=0)
    ),
    "maxAttempts": Field(
        "max_attempts",
        _max_attempts,
        _int32_schema(
            "Tries before the job becomes a dead letter. Zero and less mean the default.",
            3,
            DEFAULT_MAX_ATTEMPTS,
        ),
    ),
    "tags": Field(
        "tags",
        _tags,
        {
            "type": "array",
            "maxItems": MAX_TAGS,
            "uniqueItems": True,
            "items": {"type": "string", "minLength": 1, "maxLength": TAG_LENGTH},
            "description": "Words to list jobs by.",
            "examples": [["billing", "nightly"]],
        },
    ),
    "retry": Field(
        "retry",
        _retry,
        {**POLICY_SCHEMA, "examples": [{"strategy": "exponential", "base": 5, "cap": 600}]},
    ),
    "timeoutSeconds": Field(
        "timeout_seconds",
        _timeout_seconds,
        {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": MAX_TIMEOUT_SECONDS,
            "description": "How long one attempt may take; absent: as long as it likes.",
            "examples": [30],
        },
    ),
}
