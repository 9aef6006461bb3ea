"""The fields of a delivery, by job type: what each may hold, and how it is described."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx

from jobs.delivery import body
from jobs.delivery.statuses import STATUSES_SCHEMA, check_statuses
from jobs.fields import Field, check_string
from jobs.json_text import kind_of
from jobs.wording import shown

DEFAULT_TIMEOUT_SECONDS: Final = 30
MAX_TIMEOUT_SECONDS: Final = 3_600
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
MAX_HEADERS: Final = 50
URL_LENGTH: Final = 2_048
KEY_LENGTH: Final = 1_024
BODY_BYTES: Final = 256 << 10
HEADER_LENGTH: Final = 8_192
# https://www.rfc-editor.org/rfc/rfc9110#name-tokens
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# Blanks at its ends are no part of a value: https://www.rfc-editor.org/rfc/rfc9110#name-field-values
_HEADER_VALUE: Final = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
# What is written there wakes executors and workers (jobs.messages).
_OWN_TOPICS: Final = re.compile(r"jobs\.dlq|jobs\.dispatch\..*|bucket-triggers")
_PORTS: Final = range(1, 65536)
_OURS: Final = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade"),
        *("te", "trailer", "expect", "proxy-connection", "accept-encoding"),
        *("idempotency-key", "chronos-attempt", "webhook-id", "webhook-timestamp"),
        "webhook-signature",
    )
)
_CREDENTIALS: Final = frozenset(
    ("authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token")
)
# https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
_SECRET_BYTES: Final = range(24, 65)
_SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - announces a secret, is none


def _url(value: object) -> str:
    text = check_string(value)
    if len(text) > URL_LENGTH:
        raise ValueError(f"must not be longer than {URL_LENGTH} characters")
    try:
        url = httpx.URL(text)
        host = url.host
        port = 80 if url.port is None else url.port
    except (httpx.InvalidURL, ValueError) as exc:
        raise ValueError(f"cannot be used: {exc}") from exc
    if url.scheme not in ("http", "https") or not host or port not in _PORTS:
        raise ValueError("must be an address such as https://example.com/hook")
    if url.userinfo:
        raise ValueError("must not hold a user or password: send them in secretHeaders")
    if url.fragment:
        raise ValueError("must not hold a fragment (#…), which is never sent")
    return text


def _method(value: object) -> str:
    if value not in METHODS:
        raise ValueError(f"must be one of {', '.join(METHODS)}, not {shown(value)}")
    return str(value)


def _headers(check_header: Callable[[str, str], None]) -> Callable[[object], dict[str, str]]:
    def check(value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise ValueError(f"must be an object, not {kind_of(value)}")
        if len(value) > MAX_HEADERS:
            raise ValueError(f"must not be more than {MAX_HEADERS}")
        if len({name.lower() for name in value}) < len(value):
            raise ValueError("must not name a header twice")
        for name, text in value.items():
            if not _TOKEN.fullmatch(name):
                raise ValueError(f"cannot hold {shown(name)}: it is no name of a header")
            if type(text) is not str or len(text) > HEADER_LENGTH:
                raise ValueError(f"{name} must be a string of up to {HEADER_LENGTH} characters")
            check_header(name, text)
        return value

    return check


def _public_http_header(name: str, text: str) -> None:
    if name.lower() in _CREDENTIALS:
        raise ValueError(f"must not hold {name}: put it into secretHeaders, which are encrypted")
    _http_header(name, text)


def _http_header(name: str, text: str) -> None:
    if name.lower() in _OURS:
        raise ValueError(f"must not hold {name}, which is set with each request")
    if not _HEADER_VALUE.fullmatch(text):
        raise ValueError(
            f"{name} must be of visible ASCII characters, without blanks at its beginning and end"
        )


def _kafka_header(name: str, text: str) -> None:
    check_string(text)
    if name.lower().startswith("chronos-"):
        raise ValueError(f"must not hold {name}: names that begin with chronos- are set by Chronos")


def _body(value: object) -> str:
    text = check_string(value)
    if len(text.encode(errors="replace")) > BODY_BYTES:
        raise ValueError(f"must not be larger than {BODY_BYTES >> 10} KiB")
    body.check(text)
    return text


def _timeout(value: Any) -> Any:
    if type(value) in (int, float) and 0 < value <= MAX_TIMEOUT_SECONDS:
        return value
    raise ValueError(
        f"must be a number above 0 and up to {MAX_TIMEOUT_SECONDS}, not {shown(value)}"
    )


def _secret(value: object) -> str:
    text = check_string(value)
    encoded = text.removeprefix(_SECRET_PREFIX)
    try:
        length = len(b64decode(encoded, validate=True))
    except NotBase64:
        length = 0
    # The value must not show in an error.
    if encoded == text or length not in _SECRET_BYTES:
        raise ValueError(
            f"must be {_SECRET_PREFIX} and {_SECRET_BYTES.start} to {_SECRET_BYTES.stop - 1} bytes"
            " in base64, as Standard Webhooks has it"
        )
    return text


def _topic(value: object) -> str:
    text = check_string(value)
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        raise ValueError("must be a topic: up to 249 letters, digits, dots, dashes and underscores")
    if _OWN_TOPICS.fullmatch(text):
        raise ValueError(f"must not be {text}, which is a topic of Chronos itself")
    return text


def _kafka_key(value: object) -> str:
    text = check_string(value)
    if len(text) > KEY_LENGTH:
        raise ValueError(f"must not be longer than {KEY_LENGTH} characters")
    body.check(text)
    return text


def _statuses(value: object) -> tuple[int | str, ...]:
    return tuple(check_statuses(value))


_HEADERS: Final = {
    "type": "object",
    "maxProperties": MAX_HEADERS,
    "additionalProperties": {"type": "string", "maxLength": HEADER_LENGTH},
}
_TEMPLATE: Final = (
    "`{{ payload.order.id }}` is replaced by that value as JSON, `{{{ payload.name }}}` by its bare"
    " text; also `jobId`, `attempt`, `tenantId`, `jobType`, `scheduledAt`, `idempotencyKey` and"
    f" `definition`. Up to {body.MOST_INSERTS:,} values. Absent: the payload as JSON."
)
_BODY: Final = Field(
    "body",
    _body,
    {"type": "string", "description": f"Template of the body. {_TEMPLATE}"},
)
DELIVERY_FIELDS: Final[Mapping[str, Mapping[str, Field]]] = {
    "http": {
        "url": Field(
            "url",
            _url,
            {
                "type": "string",
                "format": "uri",
                "maxLength": URL_LENGTH,
                "description": "http or https. Private addresses are refused when the request is"
                " made, unless the operator allows them.",
                "examples": ["https://example.com/hook"],
            },
            required=True,
        ),
        "method": Field(
            "method",
            _method,
            {
                "type": "string",
                "enum": list(METHODS),
                "default": "POST",
                "description": "Method of the request.",
                "examples": ["POST"],
            },
        ),
        "headers": Field(
            "headers",
            _headers(_public_http_header),
            {
                **_HEADERS,
                "description": "Headers by name. Credentials belong into secretHeaders.",
                "examples": [{"X-Team": "billing"}],
            },
        ),
        "secretHeaders": Field(
            "secret_headers",
            _headers(_http_header),
            {
                **_HEADERS,
                "writeOnly": True,
                "description": "Headers that hold credentials: encrypted at rest, never shown"
                " again.",
                "examples": [{"Authorization": "Bearer t0ken"}],
            },
        ),
        "body": _BODY,
        "timeoutSeconds": Field(
            "timeout_seconds",
            _timeout,
            {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": MAX_TIMEOUT_SECONDS,
                "default": DEFAULT_TIMEOUT_SECONDS,
                "description": "For the whole request, from connecting to the end of the answer.",
                "examples": [10],
            },
        ),
        "expectedStatuses": Field(
            "expected_statuses",
            _statuses,
            {
                **STATUSES_SCHEMA,
                "default": ["2xx"],
                "description": "Answers that complete the job.",
                "examples": [[200, 202]],
            },
        ),
        "secret": Field(
            "secret",
            _secret,
            {
                "type": "string",
                "writeOnly": True,
                "pattern": f"^{_SECRET_PREFIX}",
                "description": "Signs each request as Standard Webhooks has it. Encrypted at rest,"
                " never shown again.",
                "examples": [f"{_SECRET_PREFIX}MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
            },
        ),
    },
    "kafka": {
        "topic": Field(
            "topic",
            _topic,
            {
                "type": "string",
                "maxLength": 249,
                "description": "Must exist when the message is sent.",
                "examples": ["orders"],
            },
            required=True,
        ),
        "key": Field(
            "key",
            _kafka_key,
            {
                "type": "string",
                "maxLength": KEY_LENGTH,
                "description": "Template of the message's key, which decides its partition.",
                "examples": ["{{{ payload.orderId }}}"],
            },
        ),
        "headers": Field(
            "headers",
            _headers(_kafka_header),
            {**_HEADERS, "description": "Headers by name.", "examples": [{"source": "chronos"}]},
        ),
        "body": _BODY,
    },
}
SECRET_FIELDS: Final = frozenset({"secret", "secretHeaders"})
"""Write-only: sealed before they are stored, and never shown."""
