"""The site's routes, and the answers to requests that reach none of them."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import path

from jobs.api import errors as api_errors
from jobs.api.urls import urlpatterns as api_routes
from jobs.dashboard import errors as page_errors

# Taken in, not included: each level of routes costs every request a little.
urlpatterns = [*api_routes, path("admin/", admin.site.urls)]


def _for_whom(
    person: Callable[..., HttpResponse], client: Callable[..., HttpResponse]
) -> Callable[..., HttpResponse]:
    """People get a page, clients of the API get JSON."""

    def answer(request: HttpRequest, *args: Exception, **named: Exception) -> HttpResponse:
        chosen = person if page_errors.is_page(request) else client
        return chosen(request, *args, **named)

    return answer


handler400 = _for_whom(page_errors.bad_request, api_errors.bad_request)
handler403 = _for_whom(page_errors.forbidden, api_errors.forbidden)
handler404 = _for_whom(page_errors.not_found, api_errors.no_such_route)
handler500 = _for_whom(page_errors.internal_error, api_errors.internal_error)
