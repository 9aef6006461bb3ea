"""What an operator does to one job: each a POST, after which its page tells how it went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, TypeVar

from bson import ObjectId
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from jobs.dashboard.job import find_job, is_template, job_page
from jobs.dashboard.page import PageRequest, access, act, sentence, use_cases
from jobs.dashboard.rights import Right
from jobs.dashboard.typed import typed_instant
from jobs.errors import InvalidJob
from jobs.services import Services

T = TypeVar("T")
_Action = Callable[[HttpRequest, ObjectId], tuple[str, ObjectId]]
"""Does it; returns a sentence, and the job to show next."""


class _Mistyped(Exception):
    """A field of a form cannot be read."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


@require_POST
def job_action(request: PageRequest, id: ObjectId, action: str) -> HttpResponse:
    """/admin/jobs/<id>/<action>/"""
    if action not in _ACTIONS:
        raise Http404
    found = find_job(request, id, Right.OPERATE)
    if is_template(found):
        # It has actions of its own, with checks of their own.
        raise Http404
    target = id

    def do() -> str:
        nonlocal target
        done, target = _ACTIONS[action](request, id)
        return done

    try:
        act(request, do)
    except _Mistyped as exc:
        return job_page(request, found, typed=request.POST.dict(), problems={exc.field: str(exc)})
    return redirect("admin:job", target)


def _reschedule(request: HttpRequest, id: ObjectId) -> tuple[str, ObjectId]:
    due_at = _instant(request, "due")
    if due_at is None:
        raise _Mistyped("due", "Say when.")
    _checked("due", lambda: use_cases().reschedule_job(id, due_at, by=access(request).author))
    return f"It is due at {due_at:%Y-%m-%d %H:%M:%S} UTC.", id


def _priority(request: HttpRequest, id: ObjectId) -> tuple[str, ObjectId]:
    try:
        priority = int(request.POST.get("priority", ""))
    except ValueError as exc:
        raise _Mistyped("priority", "This is no whole number.") from exc
    author = access(request).author
    _checked("priority", lambda: use_cases().change_priority(id, priority, by=author))
    return f"Its priority is {priority}.", id


def _clone(request: HttpRequest, id: ObjectId) -> tuple[str, ObjectId]:
    due_at = _instant(request, "clone_due")
    author = access(request).author
    clone = _checked("clone_due", lambda: use_cases().clone(id, due_at=due_at, by=author))
    return "This is the clone.", clone.id


def _checked(field: str, do: Callable[[], T]) -> T:
    try:
        return do()
    except InvalidJob as exc:
        raise _Mistyped(field, sentence(exc)) from exc


def _instant(request: HttpRequest, field: str) -> datetime | None:
    try:
        return typed_instant(request.POST.get(field, "").strip())
    except ValueError as exc:
        raise _Mistyped(field, str(exc)) from exc


def _plain(do: Callable[..., object], done: str) -> _Action:
    """An action that needs nothing but the job."""

    def action(request: HttpRequest, id: ObjectId) -> tuple[str, ObjectId]:
        do(use_cases(), id, by=access(request).author)
        return done, id

    return action


_ACTIONS: Final[Mapping[str, _Action]] = {
    "cancel": _plain(Services.cancel, "Cancelled."),
    "redrive": _plain(Services.redrive, "Redriven: it is due now, with all its attempts again."),
    "discard": _plain(Services.discard, "Discarded. It can still be redriven."),
    "run": _plain(Services.run_job_now, "It is due now."),
    "reschedule": _reschedule,
    "priority": _priority,
    "clone": _clone,
}
