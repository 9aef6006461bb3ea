"""The fields of a submitted job: what each may hold, and how it is described.

`FIELDS` says everything once: the checks, the hint at a misspelling and the OpenAPI document all
read it. The checks are plain functions, as a bulk of 1,000 jobs must not take longer to check than
to store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from jobs.cron import EXPRESSION_LENGTH
from jobs.instants import parse_instant
from jobs.json_text import kind_of
from jobs.lifecycle import DEFAULT_MAX_ATTEMPTS, MAX_TIMEOUT_SECONDS, CatchUp, Overlap
from jobs.payload import payload_text
from jobs.retry import POLICY_SCHEMA, RetryPolicy
from jobs.wording import shown

KEY_LENGTH: Final = 255
TAG_LENGTH: Final = 100
MAX_TAGS: Final = 20
DESCRIPTION_LENGTH: Final = 1_000
REASON_LENGTH: Final = 1_000
MAX_ATTEMPTS: Final = "maxAttempts"
"""A field of a job that `retry` may hold as well."""
_INT32: Final = range(-(1 << 31), 1 << 31)
# It stands in addresses.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
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


def check_string(value: object) -> str:
    """A string that can be stored. Raises ValueError as `Field.check` does."""
    if type(value) is not str:
        raise ValueError(f"must be a string, not {kind_of(value)}")
    if not value.isascii() and _SURROGATE.search(value):
        raise ValueError("must not hold a lone surrogate: it has no form in UTF-8")
    return value


def check_key(value: object, longest: int = KEY_LENGTH) -> str:
    """A key, a name or the like. Raises ValueError as `Field.check` does."""
    text = check_string(value)
    if not text or text.isspace():
        raise ValueError("must not be empty")
    if len(text) > longest:
        raise ValueError(f"must not be longer than {longest} characters")
    if _CONTROL.search(text):
        raise ValueError("must not hold NUL or other control characters")
    return text


def _instant(value: object) -> datetime:
    return parse_instant(check_string(value))


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
            tags.append(check_key(item, TAG_LENGTH))
        except ValueError as exc:
            raise ValueError(f"item {position} {exc}") from exc
    if len(set(tags)) < len(tags):
        raise ValueError("must differ from each other")
    return tuple(tags)


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"must be an object, not {kind_of(value)}")
    return value


def _retry(value: object) -> dict[str, Any]:
    policy = _object(value)
    RetryPolicy.from_document({name: policy[name] for name in policy if name != MAX_ATTEMPTS})
    if MAX_ATTEMPTS in policy:
        _int32(policy[MAX_ATTEMPTS])
    return policy


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
        check_key,
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
        check_key,
        _key_schema("Groups jobs for listing.", "tenant-a"),
        required=True,
    ),
    "jobType": Field(
        "job_type",
        check_key,
        {
            "type": "string",
            "description": "Selects the handler, or with `http` and `kafka` a delivery. A type"
            " without a handler is refused, and the error lists the known ones. Required without"
            " `definition`.",
            "examples": ["log-message"],
        },
    ),
    "definition": Field(
        "definition",
        check_key,
        {
            "type": "string",
            "description": "Name of a definition of the tenant, which gives whatever is not said"
            " here. Tags are added to its own, and `delivery` replaces parts of it. A job keeps"
            " what it was made with; a template asks the definition at each firing.",
            "examples": ["send-invoice"],
        },
    ),
    "delivery": Field(
        "delivery",
        _object,
        {
            "type": "object",
            "description": "Where and how to deliver: see HttpDelivery and KafkaDelivery. Required"
            " for `http` and `kafka`, in part or not at all with a definition; refused for other"
            " types.",
            "examples": [{"url": "https://example.com/hook"}],
        },
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
        check_string,
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
        check_string,
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


def _name(value: object) -> str:
    text = check_string(value)
    if not _NAME.fullmatch(text) or text in (".", ".."):
        raise ValueError("must be of 1 to 200 letters, digits, dots, dashes and underscores")
    return text


def _text(longest: int) -> Callable[[object], str]:
    def check(value: object) -> str:
        text = check_string(value)
        if len(text) > longest:
            raise ValueError(f"must not be longer than {longest} characters")
        return text

    return check


DEFINITION_FIELDS: Final[Mapping[str, Field]] = {
    "name": Field(
        "name",
        _name,
        {
            "type": "string",
            "pattern": f"^{_NAME.pattern}$",
            "description": "What jobs call it by; one of a kind within its tenant.",
            "examples": ["send-invoice"],
        },
        required=True,
    ),
    "tenantId": FIELDS["tenantId"],
    "description": Field(
        "description",
        _text(DESCRIPTION_LENGTH),
        {
            "type": "string",
            "maxLength": DESCRIPTION_LENGTH,
            "description": "For people.",
            "examples": ["Tells the billing service to send one invoice."],
        },
    ),
    "jobType": replace(FIELDS["jobType"], required=True),
    **{
        name: FIELDS[name]
        for name in (
            *("delivery", "payload", "priority", "maxAttempts", "tags", "retry"),
            "timeoutSeconds",
        )
    },
}
"""The fields of a submitted definition. Most are what its jobs have where they do not say it."""

PAUSE_FIELDS: Final[Mapping[str, Field]] = {
    "reason": Field(
        "reason",
        _text(REASON_LENGTH),
        {
            "type": "string",
            "maxLength": REASON_LENGTH,
            "description": "For people.",
            "examples": ["The billing service moves to another host."],
        },
    ),
    "until": Field(
        "until",
        _instant,
        {
            "type": "string",
            "format": "date-time",
            "description": "When the template goes on by itself: RFC 3339 with an offset or Z, in"
            " the future. Absent: when somebody resumes it.",
            "examples": ["2026-09-30T06:00:00Z"],
        },
    ),
}
"""What the pause of a template may say."""
