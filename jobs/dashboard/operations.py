"""Bulk operations: how far each is, by whom, and how to stop it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bson import ObjectId
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from jobs.bulk import Operation
from jobs.dashboard.dead_letter_filter import words_of
from jobs.dashboard.keyset import older_link, place_in
from jobs.dashboard.page import REFRESH_SECONDS, PageRequest, access, only_posted, page, use_cases
from jobs.dashboard.rights import Right

_PER_PAGE: Final = 50
_RUNNING_SECONDS: Final = 1
# A process reports every two seconds.
_ALIVE: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Row:
    """An operation as the pages show it."""

    operation: Operation
    words: tuple[str, ...]
    """What it is about, part by part."""
    may_cancel: bool

    @property
    def looked_at(self) -> int:
        return self.operation.done + self.operation.left_alone

    @property
    def most(self) -> int:
        """The end of the bar."""
        return max(self.operation.total, self.looked_at, 1)


@require_safe
def operations(request: PageRequest) -> HttpResponse:
    """/admin/operations/"""
    recent, rest = use_cases().bulk.recent(
        tenants=access(request).tenants, limit=_PER_PAGE, before=place_in(request)
    )
    context = {
        "rows": [_row(request, operation) for operation in recent],
        "older": older_link(request, rest),
        "is_stuck": _is_stuck(recent),
    }
    return page(
        request,
        "dashboard/operations.html",
        "Bulk operations",
        context,
        refresh_seconds=REFRESH_SECONDS,
    )


@require_safe
def operation(request: PageRequest, id: ObjectId) -> HttpResponse:
    """/admin/operations/<id>/"""
    there = _get(request, id)
    context = {"row": _row(request, there), "is_stuck": _is_stuck([there])}
    title = "Redrive of dead letters" if there.kind == "redrive" else "Discard of dead letters"
    return page(
        request,
        "dashboard/operation.html",
        title,
        context,
        refresh_seconds=None if there.is_over else _RUNNING_SECONDS,
    )


@only_posted
def operation_cancel(request: PageRequest, id: ObjectId) -> HttpResponse:
    """/admin/operations/<id>/cancel/"""
    if not _may_cancel(request, _get(request, id)):
        raise PermissionDenied("Your role does not allow it. Ask an admin of the tenant.")
    if use_cases().bulk.cancel(id, by=access(request).author):
        messages.success(request, "Cancelled. What it has done stays done.")
    else:
        messages.warning(request, "It was over already.")
    return redirect("admin:operation", id)


def is_anybody_there() -> bool:
    """Whether a reaper is alive, which does the operations."""
    repository = use_cases().repository
    since = repository.clock.now() - _ALIVE
    return bool(repository.nodes.live(role="reaper", seen_since=since))


def _get(request: HttpRequest, operation_id: ObjectId) -> Operation:
    there = use_cases().bulk.find(operation_id, tenants=access(request).tenants)
    if there is None:
        raise Http404
    return there


def _is_stuck(shown: list[Operation]) -> bool:
    return not all(each.is_over for each in shown) and not is_anybody_there()


def _may_cancel(request: HttpRequest, there: Operation) -> bool:
    theirs = access(request)
    if there.tenants is None:
        return theirs.is_superuser
    return theirs.has_somewhere(Right.OPERATE) and all(
        theirs.may(tenant, Right.OPERATE) for tenant in there.tenants
    )


def _row(request: HttpRequest, there: Operation) -> Row:
    return Row(
        there, tuple(words_of(there.filter)), not there.is_over and _may_cancel(request, there)
    )
