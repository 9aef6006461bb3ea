"""Which answer each error becomes. None of them is HTML, and none tells of our insides."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import APIException, MethodNotAllowed

from jobs.api.answers import error_answer
from jobs.errors import (
    ChronosError,
    DefinitionExists,
    DefinitionInUse,
    DefinitionNotFound,
    DuplicateKey,
    ExecutionNotFound,
    InvalidJob,
    JobNotFound,
    KeyCollision,
    MalformedId,
    StoreUnavailable,
    UnreadableDefinition,
    UnreadableExecution,
    UnreadableJob,
    VersionMismatch,
    WrongState,
)
from jobs.logs import events

logger = logging.getLogger(__name__)

_RETRY_AFTER_SECONDS = "5"


class BodyTooLarge(APIException):
    """413: the body is over its limit."""

    status_code = 413
    default_code = "too_large"


def answer(error: Exception, context: Mapping[str, Any]) -> HttpResponse | None:
    """The response to an error in a view (REST framework's EXCEPTION_HANDLER).

    None means a bug: Django logs it and calls `internal_error`.
    """
    match error:
        case DuplicateKey():
            return error_answer(str(error), 409, id=error.job_id)
        case WrongState():
            return error_answer(str(error), 409, status=error.status)
        case InvalidJob() | MalformedId():
            return error_answer(str(error), 400)
        case JobNotFound() | DefinitionNotFound() | ExecutionNotFound():
            return error_answer(str(error), 404)
        case KeyCollision() | UnreadableJob() | UnreadableDefinition() | UnreadableExecution():
            return error_answer(str(error), 409)
        case DefinitionExists() | DefinitionInUse():
            return error_answer(str(error), 409)
        case VersionMismatch():
            return error_answer(str(error), 412)
        case ChronosError():
            return _unavailable(error)
        case MethodNotAllowed():
            method = context["request"].method
            allowed = ", ".join(context["view"].allowed_methods)
            problem = f"{method} is not allowed here; allowed: {allowed}"
            return error_answer(problem, 405, {"Allow": allowed})
        case APIException():
            return error_answer(str(error.detail), error.status_code)
    return None


def _unavailable(error: ChronosError) -> HttpResponse:
    logger.warning("answered 503: %s", error, extra=events.REQUEST_UNAVAILABLE(error=error))
    problem = "the job store is not set up"
    if isinstance(error, StoreUnavailable):
        problem = "the job store does not answer; whether anything was stored is unknown"
    return error_answer(
        f"{problem}. Repeat the request: an idempotencyKey is never stored twice.",
        503,
        {"Retry-After": _RETRY_AFTER_SECONDS},
    )


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django refused a request before it came to a view (handler400)."""
    if isinstance(exception, DisallowedHost):
        return error_answer("the Host header names no host of this API (ALLOWED_HOSTS)", 400)
    return error_answer("the request cannot be read", 400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler403."""
    return error_answer("forbidden", 403)


def no_such_route(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler404."""
    return error_answer(f"there is nothing at {request.path[:200]}; see /docs", 404)


def internal_error(request: HttpRequest) -> HttpResponse:
    """A bug (handler500); Django has logged it."""
    return error_answer("internal error; the server's log has the details", 500)
