"""What an operator does to one job: each a POST, after which its page tells how it went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, TypeVar

from bson import ObjectId
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect

from jobs.dashboard.job import find_job, is_template, job_page
from jobs.dashboard.page import (
    PageRequest,
    access,
    act,
    only_posted,
    sentence,
    use_cases,
    utc,
)
from jobs.dashboard.rights import Right
from jobs.dashboard.typed import typed_instant
from jobs.errors import InvalidJob, VersionMismatch
from jobs.services import Services

T = TypeVar("T")
_Action = Callable[[HttpRequest, ObjectId], tuple[str, ObjectId]]
"""Does it; returns a sentence, and the job to show next."""


class _Mistyped(Exception):
    """A field of a form cannot be read."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


class _Stale(Exception):
    """What a form was to change is no longer what it showed."""

    def __init__(self, field: str, now: str) -> None:
        super().__init__(
            f"It was changed meanwhile: it is {now} now. Nothing was stored; send it again to"
            " replace that."
        )
        self.field = field


@only_posted
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
    except _Stale as exc:
        return job_page(
            request,
            find_job(request, id, Right.OPERATE),
            typed=request.POST.dict(),
            problems={exc.field: str(exc)},
            is_stale=True,
        )
    return redirect("admin:job", target)


def _reschedule(request: HttpRequest, id: ObjectId) -> tuple[str, ObjectId]:
    due_at = _instant(request, "due")
    if due_at is None:
        raise _Mistyped("due", "Say when.")
    seen, author = _seen(request, datetime.fromisoformat), access(request).author
    _checked(
        "due",
        lambda: use_cases().reschedule_job(id, due_at, seen=seen, by=author),
        lambda: f"due at {utc(use_cases().repository.jobs.get(id).scheduled_at)}",
    )
    return f"It is due at {due_at:%Y-%m-%d %H:%M:%S} UTC.", id


def _priority(request: HttpRequest, id: ObjectId) -> tuple[str, ObjectId]:
    try:
        priority = int(request.POST.get("priority", ""))
    except ValueError as exc:
        raise _Mistyped("priority", "This is no whole number.") from exc
    seen, author = _seen(request, _int32), access(request).author
    _checked(
        "priority",
        lambda: use_cases().change_priority(id, priority, seen=seen, by=author),
        lambda: str(use_cases().repository.jobs.get(id).priority),
    )
    return f"Its priority is {priority}.", id


def _clone(request: HttpRequest, id: ObjectId) -> tuple[str, ObjectId]:
    due_at = _instant(request, "clone_due")
    author = access(request).author
    clone = _checked("clone_due", lambda: use_cases().clone(id, due_at=due_at, by=author))
    return "This is the clone.", clone.id


def _checked(field: str, do: Callable[[], T], now: Callable[[], str] = str) -> T:
    """Do it; what is wrong with the field is told beside it, also what it is `now` instead."""
    try:
        return do()
    except InvalidJob as exc:
        raise _Mistyped(field, sentence(exc)) from exc
    except VersionMismatch as exc:
        raise _Stale(field, now()) from exc


def _int32(text: str) -> int:
    number = int(text)
    # Others are no priorities, and some no numbers for MongoDB.
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(text)
    return number


def _seen(request: HttpRequest, read: Callable[[str], T]) -> T | None:
    """What the form showed when it was opened; None: it does not say.

    Raises:
        Http404: the form was not ours.
    """
    text = request.POST.get("seen", "")
    try:
        return read(text) if text else None
    except ValueError as exc:
        raise Http404 from exc


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
