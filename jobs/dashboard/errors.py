"""The pages that are shown instead of a page. None of them asks the database."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from jobs.errors import NotProvisioned

PREFIX: Final = "/admin/"


def is_page(request: HttpRequest) -> bool:
    """Whether a person asks, not a client of the API."""
    return request.path_info.startswith(PREFIX)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _page(request, 400, "Bad request", "The request cannot be read.")


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    said = str(exception) or "You may not do this."
    return _page(request, 403, "Not allowed", said)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's CSRF_FAILURE_VIEW."""
    return _page(
        request,
        403,
        "The form is too old",
        "Nothing was changed. The form does not belong to your session: you logged in or out since,"
        " or your browser sends no cookies. Go back, reload the page and send it again.",
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _page(
        request,
        404,
        "Not found",
        "There is nothing at this address: it was deleted, it never was, or it belongs to a tenant"
        " of which you are not a member.",
    )


def not_allowed(request: HttpRequest, allowed: str) -> HttpResponse:
    """405: the address is there for something else."""
    said = f"{request.method} is not allowed at this address. Allowed: {allowed}."
    answer = _page(request, 405, "Not allowed here", said)
    answer["Allow"] = allowed
    return answer


def internal_error(request: HttpRequest) -> HttpResponse:
    return _page(request, 500, "Internal error", "This is a bug. The server's log has the details.")


def unavailable(request: HttpRequest, exception: Exception) -> HttpResponse:
    """503, for as long as MongoDB does not answer or was not prepared."""
    if isinstance(exception, NotProvisioned):
        said = str(exception)
    else:
        said = (
            "MongoDB does not answer. Whether your last action was done is unknown: look again"
            " before you repeat it. Jobs that run go on; what is due waits."
        )
    answer = _page(request, 503, "The job store is away", said)
    answer["Retry-After"] = "5"
    return answer


def _page(request: HttpRequest, status: int, title: str, said: str) -> HttpResponse:
    context = {"title": title, "said": said, "status": status}
    return render(request, "dashboard/error.html", context, status=status)
