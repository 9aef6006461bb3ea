"""What happens to every request: it is named, traced and counted, and its Host must be ours."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from prometheus_client import Histogram

from jobs.logs import events
from jobs.origin import REQUEST_ID, Origin, acting_for, request_id_from
from jobs.tracing import spans
from jobs.tracing.spans import Ongoing

logger = logging.getLogger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponseBase]

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_seconds: Final = Histogram(
    "api_request_seconds",
    "Time from a request's arrival in Django to its answer",
    ("method", "route", "status"),
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
)


def know_requests(get_response: GetResponse) -> GetResponse:
    """Give each request its id and its span; both are passed on to the jobs that it makes."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        # Not by `request.headers`, which reads them all first.
        request_id = request_id_from(request.META.get("HTTP_X_REQUEST_ID"))
        sent = request.META.get("HTTP_TRACEPARENT")
        method = request.method if request.method in _METHODS else "other"
        # Load balancers ask all the time.
        if request.path_info == "/healthz":
            response = get_response(request)
        else:
            with spans.request(method or "other", sent, request_id) as span:
                with acting_for(Origin(request_id, span.traceparent)):
                    response = get_response(request)
                _tell(span, request, response.status_code)
        response[REQUEST_ID] = request_id
        return response

    return middleware


def _tell(span: Ongoing, request: HttpRequest, status: int) -> None:
    attributes: dict[str, str | int] = {"http.response.status_code": status}
    name = request.method or "other"
    if match := request.resolver_match:
        attributes["http.route"] = route = _shown_route(match.route)
        name = f"{name} {route}"
    span.name(name, attributes)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        span.fail(str(status))


def measure_requests(get_response: GetResponse) -> GetResponse:
    """Count requests and their time by method, route and status."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        response = get_response(request)
        # What a client makes up must not become new series.
        method = request.method if request.method in _METHODS else "other"
        match = request.resolver_match
        route = _shown_route(match.route) if match else "none"
        seconds = time.perf_counter() - started
        logger.debug(
            "%s %s: %d",
            method,
            route,
            response.status_code,
            extra=events.REQUEST_ANSWERED(
                method=method,
                route=route,
                status=response.status_code,
                duration_ms=round(seconds * 1000, 1),
            ),
        )
        _series(method or "other", route, response.status_code).observe(seconds)
        return response

    return middleware


@cache
def _shown_route(route: str) -> str:
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)


@cache
def _series(method: str, route: str, status: int) -> Histogram:
    return _seconds.labels(method, route, str(status))


def drop_body_of_head(get_response: GetResponse) -> GetResponse:
    """Answer HEAD as GET, without the body."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if request.method == "HEAD" and isinstance(response, HttpResponse):
            response.content = b""
        return response

    return middleware


def require_known_host(get_response: GetResponse) -> GetResponse:
    """Refuse a Host that is not in ALLOWED_HOSTS, as a page that rebinds its name would send.

    `/healthz` answers to any name: load balancers ask by address.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if request.path_info != "/healthz":
            request.get_host()
        return get_response(request)

    return middleware
