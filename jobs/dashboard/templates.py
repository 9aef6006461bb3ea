"""Cron templates: the list, one of them, and what can be done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from bson import ObjectId
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from jobs import cron
from jobs.api.representation import job_body
from jobs.cron_words import in_words
from jobs.dashboard.audit import DONE
from jobs.dashboard.keyset import place_in, way_on
from jobs.dashboard.page import (
    REFRESH_SECONDS,
    PageRequest,
    access,
    act,
    only_posted,
    page,
    require_tenant,
    sentence,
    use_cases,
)
from jobs.dashboard.pretty import readable
from jobs.dashboard.rights import Right
from jobs.dashboard.strip import Strip, strip_of
from jobs.errors import InvalidCron, InvalidJob
from jobs.exposure import exposed_delivery, exposed_text, exposed_value
from jobs.lifecycle import Job, Status
from jobs.preview import Occurrence, next_occurrences
from jobs.repository.documents import KIND, TEMPLATE, BrokenJob
from jobs.repository.looks import Listed
from jobs.repository.template_lists import RunMark

_PER_PAGE: Final = 50
_RUNS: Final = 20
_ENTRIES: Final = 20
_NEXT: Final = 5
_STATUSES: Final = (Status.PENDING, Status.PAUSED, Status.DLQ, Status.CANCELLED)
_FILTERS: Final = ("tenant", "status", "type", "definition", "key")
_MICROSECOND: Final = timedelta(microseconds=1)
_SECONDS_ABSENT: Final = len("2026-11-30T04:25")


@dataclass(frozen=True, slots=True)
class Row:
    """A template as the list shows it."""

    template: Job
    words: str | None
    strip: Strip
    last: RunMark | None


@require_safe
def templates(request: PageRequest) -> HttpResponse:
    """/admin/templates/"""
    wanted = {name: request.GET.get(name, "").strip() for name in _FILTERS}
    tenants = access(request).tenants
    if wanted["tenant"]:
        tenants = frozenset({wanted["tenant"]} if access(request).sees(wanted["tenant"]) else ())
    lists = use_cases().repository.template_lists
    found = Listed([], None, None)
    if wanted["status"] in ("", *_STATUSES):
        found = lists.page(
            tenants,
            limit=_PER_PAGE,
            status=Status(wanted["status"]) if wanted["status"] else None,
            job_type=wanted["type"] or None,
            definition=wanted["definition"] or None,
            key=wanted["key"] or None,
            before=place_in(request),
        )
    runs = lists.last_runs([template.id for template in found.jobs])
    context = {
        "rows": [_row(template, runs.get(template.id, ())) for template in found.jobs],
        "wanted": wanted,
        "is_filtered": any(wanted.values()),
        "statuses": _STATUSES,
        **way_on(request, found),
        "may_create": access(request).has_somewhere(Right.OPERATE),
    }
    refresh = REFRESH_SECONDS
    return page(request, "dashboard/templates.html", "Templates", context, refresh_seconds=refresh)


def _row(template: Job | BrokenJob, marks: Sequence[RunMark]) -> Row | BrokenJob:
    if isinstance(template, BrokenJob):
        return template
    return Row(template, _words(template), strip_of(marks), marks[0] if marks else None)


def _words(template: Job) -> str | None:
    try:
        return in_words(template.cron or "")
    except InvalidCron:
        return None


@require_safe
def template(request: PageRequest, id: ObjectId) -> HttpResponse:
    """/admin/templates/<id>/"""
    return _template_page(request, find_template(request, id))


def find_template(
    request: HttpRequest, template_id: ObjectId, right: Right = Right.VIEW
) -> Job | BrokenJob:
    """A template in whose tenant the user has a right.

    Raises:
        Http404: there is none, or it is none of the user's.
        PermissionDenied: the right is missing.
    """
    found = use_cases().repository.jobs.read(template_id)
    if isinstance(found, Job):
        tenant_id, is_template = found.tenant_id, found.is_template
    else:
        stored = found.document.get("tenantId")
        # "" is nobody's tenant: only superusers see what was edited into something else.
        tenant_id = stored if isinstance(stored, str) else ""
        is_template = found.document.get(KIND) == TEMPLATE
    if not is_template:
        raise Http404
    require_tenant(request, tenant_id, right)
    return found


def _template_page(
    request: PageRequest,
    found: Job | BrokenJob,
    *,
    typed: Mapping[str, str] | None = None,
    problems: Mapping[str, str] | None = None,
) -> HttpResponse:
    repository = use_cases().repository
    now = repository.clock.now()
    entries, _ = repository.audit_log.page(
        access(request).tenants, limit=_ENTRIES, target=str(found.id)
    )
    context: dict[str, Any] = {
        "entries": [(entry, DONE[entry.action]) for entry in entries],
        "target": str(found.id),
        "now": now,
        "typed": typed or {},
        "problems": problems or {},
    }
    if isinstance(found, BrokenJob):
        title = str(found.document.get("idempotencyKey", found.id))
        context |= {"broken": found, "document": readable(job_body(found))}
    else:
        title = found.idempotency_key
        context |= _facts(found, now) | {
            "may_act": access(request).may(found.tenant_id, Right.OPERATE)
        }
    return page(
        request,
        "dashboard/template.html",
        f"Template {title}",
        context,
        status=422 if typed else 200,
        refresh_seconds=REFRESH_SECONDS,
    )


def _facts(template: Job, now: datetime) -> dict[str, Any]:
    repository = use_cases().repository
    marks = repository.template_lists.last_runs([template.id]).get(template.id, [])
    runs = repository.jobs.page(template.tenant_id, limit=_RUNS, template_id=template.id)
    upcoming, problem = _upcoming(template, now)
    return {
        "template": template,
        "words": _words(template),
        "upcoming": upcoming,
        "cron_problem": problem,
        "strip": strip_of(marks),
        "runs": runs.jobs,
        "payload": None if template.payload is None else readable(exposed_text(template.payload)),
        "delivery": (
            None if template.delivery is None else readable(exposed_delivery(template.delivery))
        ),
        "retry": None if template.retry is None else readable(exposed_value(template.retry)),
    }


def _upcoming(template: Job, now: datetime) -> tuple[list[Occurrence], str | None]:
    """The next occurrences of a template that goes on, or why there are none."""
    if template.status not in (Status.PENDING, Status.PAUSED):
        return [], None
    since = max(now, (template.paused_until or now) - _MICROSECOND)
    try:
        schedule = cron.parse(template.cron or "", template.timezone)
    except InvalidCron as exc:
        return [], sentence(exc)
    return next_occurrences(schedule, now=since, count=_NEXT), None


def _pause(request: HttpRequest, id: ObjectId) -> str:
    document = {"reason": request.POST.get("reason", "").strip()}
    if until := request.POST.get("until", "").strip():
        document["until"] = instant_text(until)
    use_cases().templates.pause(id, document, by=access(request).author)
    return "Paused."


def _resume(request: HttpRequest, id: ObjectId) -> str:
    use_cases().templates.resume(id, by=access(request).author)
    return "Resumed."


def _run(request: HttpRequest, id: ObjectId) -> str:
    run = use_cases().templates.run_now(id, by=access(request).author)
    return f"A run was made: {run.id}."


def _cancel(request: HttpRequest, id: ObjectId) -> str:
    use_cases().cancel(id, by=access(request).author)
    return "Cancelled. Runs that it has spawned go on."


def _redrive(request: HttpRequest, id: ObjectId) -> str:
    use_cases().redrive(id, by=access(request).author)
    return "Redriven: it goes on with its next occurrence."


_ACTIONS: Final[Mapping[str, Callable[[HttpRequest, ObjectId], str]]] = {
    "pause": _pause,
    "resume": _resume,
    "run": _run,
    "cancel": _cancel,
    "redrive": _redrive,
}


@only_posted
def template_action(request: PageRequest, id: ObjectId, action: str) -> HttpResponse:
    """/admin/templates/<id>/<action>/"""
    if action not in _ACTIONS:
        raise Http404
    found = find_template(request, id, Right.OPERATE)
    raised = (InvalidJob,) if action == "pause" else ()
    try:
        act(request, lambda: _ACTIONS[action](request, id), *raised)
    except InvalidJob as exc:
        # What was typed is shown again, with what is wrong beside its field.
        problems = {exc.field: sentence(exc)}
        return _template_page(request, found, typed=request.POST.dict(), problems=problems)
    return redirect("admin:template", id)


def instant_text(typed: str) -> str:
    """What a browser sends of a field `datetime-local` that is labelled UTC, as RFC 3339."""
    return f"{typed}:00Z" if len(typed) == _SECONDS_ABSENT else f"{typed}Z"
