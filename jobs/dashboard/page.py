"""What every page is made of: who asks, the shell around it, and what becomes of an action."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect, render
from django.utils.cache import patch_vary_headers
from django_htmx.middleware import HtmxDetails

from jobs import services
from jobs.dashboard.rights import Access, Right, access_of
from jobs.errors import (
    ChronosError,
    DefinitionNotFound,
    ExecutionNotFound,
    JobNotFound,
    MalformedId,
    NotProvisioned,
    StoreUnavailable,
)
from jobs.repository.outages import within
from jobs.services import Services

NOT_FOUND: Final = (DefinitionNotFound, ExecutionNotFound, JobNotFound, MalformedId)
"""Errors that are answered with 404."""
UNAVAILABLE: Final = (NotProvisioned, StoreUnavailable)
"""Errors that are answered with 503."""
REFRESH_SECONDS: Final = 5
_PATIENCE: Final = timedelta(seconds=5)
"""For session, user and rights together, as long as MongoDB's primary is looked for: a page asks
for them first, so this is what a MongoDB that hangs costs it."""
LIVE: Final = "live"
"""The parameter that says `off` where a page is not to refresh itself."""


class PageRequest(HttpRequest):
    """A request to a page: somebody who may be here asks."""

    htmx: HtmxDetails


def access(request: HttpRequest) -> Access:
    """What the user of a request may; asked once per request."""
    known: Access | None = getattr(request, "_access", None)
    if known is None:
        with within(_PATIENCE):
            known = access_of(request.user)
        request._access = known  # type: ignore[attr-defined]
    return known


def use_cases() -> Services:
    """The services of this process."""
    return services.default()


def require_tenant(request: HttpRequest, tenant_id: str, right: Right = Right.VIEW) -> None:
    """Go on only where the user has a right in a tenant.

    Raises:
        Http404: the tenant is none of the user's, so what was asked for is not even there.
        PermissionDenied: it is, but the right is missing.
    """
    if not access(request).sees(tenant_id):
        raise Http404
    if not access(request).may(tenant_id, right):
        raise PermissionDenied(
            "Your role in this tenant does not allow it. Ask an admin of the tenant for another."
        )


def page(
    request: PageRequest,
    template: str,
    title: str,
    context: dict[str, Any],
    *,
    status: int = 200,
    refresh_seconds: int | None = None,
) -> HttpResponse:
    """A page in the admin's shell; for htmx only its block `region`.

    Args:
        request: it; `?live=off` keeps the page from refreshing itself.
        template: extends `base`, which the context names.
        title: its heading.
        context: what the template shows. `now`, the store's clock, is added unless it is there.
        status: of the answer.
        refresh_seconds: how often the region is asked for anew; None: never.
    """
    if "now" not in context:
        context = {**context, "now": use_cases().repository.clock.now()}
    is_live = refresh_seconds is not None and request.GET.get(LIVE) != "off"
    shell: dict[str, Any] = (
        {"base": "dashboard/partial.html"}
        if request.htmx
        else {**admin.site.each_context(request), "base": "dashboard/base.html"}
    )
    shell |= {
        "title": title,
        "access": access(request),
        "refresh_seconds": refresh_seconds if is_live else None,
        "may_refresh": refresh_seconds is not None,
    }
    answer = render(request, template, {**shell, **context}, status=status)
    patch_vary_headers(answer, ["HX-Request"])
    return answer


def only_posted(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """For a view that changes something: only a POST does.

    Whoever comes by GET had to log in again on the way, which lost the POST: the page above tells.
    """

    @wraps(view)
    def posted(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method == "POST":
            return view(request, *args, **kwargs)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["POST"])
        messages.warning(request, "Nothing was done, as you had to log in first. Do it again here.")
        return redirect(request.path.rstrip("/").rpartition("/")[0] + "/")

    return posted


def act(request: HttpRequest, action: Callable[[], str], *raised: type[ChronosError]) -> bool:
    """Do what somebody asked for, and tell how it went with the next page.

    Args:
        request: a POST.
        action: does it and returns a sentence.
        raised: errors that are the caller's, who knows a better place for them.

    Returns:
        Whether it was done; False: it was refused, and the error is told.
    """
    try:
        done = action()
    except ChronosError as exc:
        if isinstance(exc, (*NOT_FOUND, *UNAVAILABLE, *raised)):
            raise
        messages.error(request, sentence(exc))
        return False
    messages.success(request, done)
    return True


def sentence(error: ChronosError) -> str:
    """What an error says, as a sentence."""
    text = str(error)
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


def utc(at: datetime) -> str:
    """An instant for people, exactly: 2026-11-30 04:25:09 UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
