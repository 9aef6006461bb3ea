"""Dead letters: in groups of the same error, one by one, and acts on all that a filter finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_safe

from jobs.bulk import Kind
from jobs.dashboard.dead_letter_filter import Asked, asked_for, query_of
from jobs.dashboard.keyset import place_in, way_on
from jobs.dashboard.operations import is_anybody_there
from jobs.dashboard.page import PageRequest, access, page, require_tenant, use_cases
from jobs.dashboard.rights import Right
from jobs.lifecycle import Job
from jobs.repository.dead_letter_lists import LOOKED_AT, LOOKED_INTO, Group
from jobs.repository.documents import BrokenJob

_PER_PAGE: Final = 50
_GROUPS_SHOWN: Final = 100
_ERROR_SHOWN: Final = 1_000
# Grouping may look at 100,000: seldom enough that many open pages cost little.
_REFRESH_SECONDS: Final = 15


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group as the list shows it."""

    group: Group
    query: str
    """What finds its dead letters, in an address."""
    may_act: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A dead letter as the list shows it."""

    letter: Job | BrokenJob
    error: str

    @property
    def is_readable(self) -> bool:
        return isinstance(self.letter, Job)


@require_safe
def dead_letters(request: PageRequest) -> HttpResponse:
    """/admin/dead-letters/"""
    asked = _asked(request)
    theirs = access(request)
    context: dict[str, object] = {
        "asked": asked,
        "looked_at": LOOKED_AT if asked.filter.error_text is None else LOOKED_INTO,
        "may_act": not asked.problems and _may_act(request, asked),
    }
    if not asked.problems:
        lists = use_cases().repository.dead_letter_lists
        groups = lists.groups(asked.filter, theirs.tenants)
        listed = lists.page(asked.filter, theirs.tenants, limit=_PER_PAGE, before=place_in(request))
        context |= {
            "groups": [
                GroupRow(group, query_of(group.filter), theirs.may(group.tenant_id, Right.OPERATE))
                for group in groups.groups[:_GROUPS_SHOWN]
            ],
            "more_groups": max(0, len(groups.groups) - _GROUPS_SHOWN),
            "count": groups.count,
            "is_complete": groups.is_complete,
            "rows": [_row(letter) for letter in listed.jobs],
            **way_on(request, listed),
        }
    is_first = "before" not in request.GET
    return page(
        request,
        "dashboard/dead_letters.html",
        "Dead letters",
        context,
        status=422 if asked.problems else 200,
        refresh_seconds=_REFRESH_SECONDS if is_first and not asked.problems else None,
    )


@require_http_methods(["GET", "HEAD", "POST"])
def dead_letters_act(request: PageRequest, kind: str) -> HttpResponse:
    """/admin/dead-letters/<kind>/: says what will be done to how many; a POST does it."""
    if kind not in set(Kind):
        raise Http404
    asked = _asked(request)
    if asked.problems:
        raise Http404
    if asked.filter.tenant_id is not None:
        require_tenant(request, asked.filter.tenant_id, Right.OPERATE)
    elif not access(request).has_somewhere(Right.OPERATE):
        raise PermissionDenied("Your role does not allow it. Ask an admin of a tenant for another.")
    tenants = access(request).tenants_with(Right.OPERATE)
    if request.method == "POST":
        operation = use_cases().bulk.start(
            Kind(kind), asked.filter, tenants=tenants, by=access(request).author
        )
        return redirect("admin:operation", operation.id)
    groups = use_cases().repository.dead_letter_lists.groups(asked.filter, tenants)
    among = asked.filter.tenants_within(tenants)
    context = {
        "kind": kind,
        "asked": asked,
        "count": groups.count,
        "is_complete": groups.is_complete,
        "tenants": among,
        "is_anybody_there": is_anybody_there(),
    }
    title = "Redrive dead letters" if kind == Kind.REDRIVE else "Discard dead letters"
    return page(request, "dashboard/dead_letters_act.html", title, context)


def _asked(request: PageRequest) -> Asked:
    return asked_for(request.GET.dict(), request.GET.getlist("without"))


def _may_act(request: PageRequest, asked: Asked) -> bool:
    tenant = asked.filter.tenant_id
    if tenant is None:
        return access(request).has_somewhere(Right.OPERATE)
    return access(request).may(tenant, Right.OPERATE)


def _row(letter: Job | BrokenJob) -> Row:
    if isinstance(letter, Job):
        return Row(letter, (letter.last_error or "")[:_ERROR_SHOWN])
    return Row(letter, letter.problem[:_ERROR_SHOWN])
