"""What every answer under /admin/ has: an end, a strict policy, a sentence when MongoDB is away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase

from jobs.dashboard import errors
from jobs.dashboard.page import NOT_FOUND, UNAVAILABLE
from jobs.logs import events
from jobs.repository.outages import within

logger = logging.getLogger(__name__)

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_PATIENCE: Final = timedelta(seconds=15)
"""For all that one page asks of MongoDB: more than the 10 s that one list may take."""


class DashboardMiddleware:
    """Leaves the API's answers alone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not errors.is_page(request):
            return self._get_response(request)
        with within(_PATIENCE):
            answer = self._get_response(request)
        if isinstance(answer, HttpResponseNotAllowed):
            answer = errors.not_allowed(request, answer["Allow"])
        answer["Content-Security-Policy"] = _POLICY
        return answer

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer what a page raised; None: it is a bug, or the API's."""
        if not errors.is_page(request):
            return None
        if isinstance(error, NOT_FOUND):
            return errors.not_found(request, error)
        if isinstance(error, (*UNAVAILABLE, DatabaseError)):
            # Django's says nothing; the driver's behind it does.
            reason = error if str(error) else error.__cause__ or error
            extra = events.PAGE_UNAVAILABLE(error=reason)
            logger.warning("a page was answered with 503: %s", reason, extra=extra)
            return errors.unavailable(request, error)
        return None
