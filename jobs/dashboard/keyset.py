"""Where a page of a list begins, in its address: `?before=` a cursor."""

from __future__ import annotations

from typing import Any, Final

from django.http import Http404, HttpRequest

from jobs.api.cursor import cursor_of, position_of
from jobs.repository.looks import Listed, Place

BEFORE: Final = "before"


def place_in(request: HttpRequest) -> Place | None:
    """The place that the address of a page names; None: the beginning.

    Raises:
        Http404: it is none.
    """
    cursor = request.GET.get(BEFORE, "")
    if not cursor:
        return None
    try:
        return position_of(cursor)
    except ValueError as exc:
        raise Http404 from exc


def way_on(request: HttpRequest, listed: Listed) -> dict[str, Any]:
    """What `dashboard/older.html` says below a list that was looked through."""
    return {
        "older": older_link(request, listed.next),
        "looked_back_to": listed.looked_back_to,
    }


def older_link(request: HttpRequest, rest: Place | None) -> str | None:
    """The query of the next page of the same list; None: there is none."""
    if rest is None:
        return None
    query = request.GET.copy()
    query[BEFORE] = cursor_of(rest)
    return f"?{query.urlencode()}"
