"""Reading a request's body: bounded, in UTF-8, strict JSON."""

from __future__ import annotations

from typing import Any, Final

from django.http import UnreadablePostError
from gunicorn.http.errors import ParseException
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request

from jobs.api.errors import BodyTooLarge
from jobs.errors import InvalidJob
from jobs.json_text import NotJson, kind_of, loads

MAX_BYTES: Final = 1 << 20
BULK_MAX_BYTES: Final = 16 << 20
MAX_BULK: Final = 1_000
MAX_CONTAINERS: Final = 1_000_000
"""Objects and arrays in one body, about: each takes some twenty times its text in memory."""


def read_json(request: Request, limit: int = MAX_BYTES) -> Any:
    """The JSON value in a request's body.

    Args:
        request: nothing may have read it yet.
        limit: bytes.

    Raises:
        UnsupportedMediaType: it does not say that it is JSON.
        BodyTooLarge: longer than the limit, whatever Content-Length says.
        InvalidJob: not JSON in UTF-8.
    """
    _require_json(request)
    body = _read(request, limit)
    try:
        text = body.decode()
    except UnicodeDecodeError as exc:
        raise InvalidJob("body", f"is not UTF-8: byte {exc.start} cannot be read") from exc
    if text.startswith("\ufeff"):
        raise InvalidJob("body", "must not begin with a byte order mark")
    if not text or text.isspace():
        raise InvalidJob("body", "is empty")
    if text.count("[") + text.count("{") > MAX_CONTAINERS:
        raise InvalidJob("body", f"must not hold more than {MAX_CONTAINERS} objects and arrays")
    try:
        return loads(text)
    except NotJson as exc:
        raise InvalidJob("body", f"is not usable JSON: {exc}") from exc


def read_json_if_any(request: Request) -> Any:
    """The JSON value in a request's body; an empty object where there is no body.

    Raises as `read_json` does.
    """
    has_body = request.META.get("CONTENT_LENGTH") not in (None, "", "0")
    if has_body or request.META.get("wsgi.input_terminated"):
        return read_json(request)
    return {}


def read_many(request: Request) -> list[Any]:
    """The array in the body of a bulk request. Raises as `read_json` does."""
    documents = read_json(request, BULK_MAX_BYTES)
    if not isinstance(documents, list):
        raise InvalidJob("body", f"must be an array of jobs, not {kind_of(documents)}")
    if len(documents) > MAX_BULK:
        raise InvalidJob("body", f"must not hold more than {MAX_BULK} jobs")
    return documents


def _require_json(request: Request) -> None:
    charset = (request.content_params or {}).get("charset", "utf-8").lower()
    if request.content_type != "application/json" or charset not in ("utf-8", "utf8"):
        raise UnsupportedMediaType(
            request.content_type, "Content-Type must be application/json, in UTF-8"
        )


def _read(request: Request, limit: int) -> bytes:
    declared = request.META.get("CONTENT_LENGTH") or None
    if declared is not None and int(declared) > limit:
        raise _too_large(limit)
    # A chunked body has no Content-Length; Django takes it for empty, but the server below has
    # decoded it.
    is_chunked = declared is None and request.META.get("wsgi.input_terminated")
    try:
        stream = request.META["wsgi.input"] if is_chunked else request
        body: bytes = stream.read(limit + 1)
    except (UnreadablePostError, OSError, ParseException) as exc:
        raise InvalidJob("body", "ended early or is wrongly framed") from exc
    if len(body) > limit:
        raise _too_large(limit)
    if declared is not None and len(body) < int(declared):
        raise InvalidJob("body", "is shorter than Content-Length says")
    return body


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body must not be larger than {limit >> 20} MiB")
