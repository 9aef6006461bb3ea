"""The list of jobs: tabs by status, filters, and the search for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from bson import ObjectId
from bson.errors import InvalidId
from django.http import HttpResponse
from django.views.decorators.http import require_safe

from jobs.dashboard.keyset import place_in, way_on
from jobs.dashboard.page import REFRESH_SECONDS, PageRequest, access, page, use_cases
from jobs.dashboard.typed import typed_instant
from jobs.lifecycle import LIVE, Job, Status
from jobs.repository.documents import BrokenJob
from jobs.repository.job_lists import COUNTED, Tab, Wanted
from jobs.repository.looks import Listed

_PER_PAGE: Final = 50
_FILTERS: Final = (
    *("tenant", "type", "definition", "tag", "template", "since", "until", "error"),
    *("q", "tab"),
)
_LONGEST: Final = 1_000
_TITLES: Final[Mapping[Tab, str]] = {
    Tab.ALL: "All",
    Tab.PENDING: "Pending",
    Tab.RETRYING: "Waiting for retry",
    Tab.QUEUED: "Queued",
    Tab.RUNNING: "Running",
    Tab.COMPLETED: "Completed",
    Tab.DEAD: "Dead",
    Tab.CANCELLED: "Cancelled",
}
_TITLE_LENGTH: Final = 1_000


@dataclass(frozen=True, slots=True)
class Row:
    """A job as the list shows it."""

    job: Job
    lag: timedelta | None
    """How late it began, or is by now."""
    lasted: timedelta | None
    error: str
    """The beginning of its last error, for the title."""


@dataclass(frozen=True, slots=True)
class TabLink:
    """One of the tabs."""

    name: str
    title: str
    count: int | None
    is_current: bool


@require_safe
def jobs(request: PageRequest) -> HttpResponse:
    """/admin/jobs/"""
    typed = {name: request.GET.get(name, "").strip()[:_LONGEST] for name in _FILTERS}
    problems: dict[str, str] = {}
    wanted = _wanted(typed, problems)
    tenants = access(request).tenants
    lists = use_cases().repository.job_lists
    now = use_cases().repository.clock.now()
    listed = Listed([], None, None)
    if typed["q"]:
        listed = Listed(lists.search(typed["q"], tenants), None, None)
    elif not problems:
        listed = lists.page(wanted, tenants, limit=_PER_PAGE, before=place_in(request))
    counts = lists.counts(tenants)
    context: dict[str, Any] = {
        "now": now,
        "rows": [_row(job, now) for job in listed.jobs],
        "typed": typed,
        "problems": problems,
        "is_filtered": any(typed[name] for name in _FILTERS if name != "tab"),
        "tabs": [
            TabLink(tab, title, counts.get(tab), not typed["q"] and tab is wanted.tab)
            for tab, title in _TITLES.items()
        ],
        "counted": COUNTED,
        **way_on(request, listed),
    }
    is_first = "before" not in request.GET
    return page(
        request,
        "dashboard/jobs.html",
        "Jobs",
        context,
        status=422 if problems else 200,
        refresh_seconds=REFRESH_SECONDS if is_first and not problems else None,
    )


def _wanted(typed: Mapping[str, str], problems: dict[str, str]) -> Wanted:
    """What the fields ask for; what cannot be read goes into `problems`, by field."""
    try:
        template_id = ObjectId(typed["template"]) if typed["template"] else None
    except InvalidId:
        template_id = None
        problems["template"] = "This is no id of a template: 24 hexadecimal digits."
    return Wanted(
        tab=Tab(typed["tab"]) if typed["tab"] in set(Tab) else Tab.ALL,
        tenant_id=typed["tenant"] or None,
        job_type=typed["type"] or None,
        definition=typed["definition"] or None,
        tag=typed["tag"] or None,
        template_id=template_id,
        error_text=typed["error"] or None,
        since=_instant(typed, "since", problems),
        until=_instant(typed, "until", problems),
    )


def _instant(typed: Mapping[str, str], field: str, problems: dict[str, str]) -> datetime | None:
    try:
        return typed_instant(typed[field])
    except ValueError as exc:
        problems[field] = str(exc)
        return None


def _row(job: Job | BrokenJob, now: datetime) -> Row | BrokenJob:
    if isinstance(job, BrokenJob):
        return job
    return Row(job, _lag(job, now), _lasted(job), (job.last_error or "")[:_TITLE_LENGTH])


def _lag(job: Job, now: datetime) -> timedelta | None:
    if job.started_at is not None:
        began: datetime | None = job.started_at
    else:
        began = now if job.status in LIVE and job.scheduled_at < now else None
    return None if began is None else max(began - job.ready_at, timedelta(0))


def _lasted(job: Job) -> timedelta | None:
    if job.started_at is None or job.finished_at is None or job.status is Status.CANCELLED:
        return None
    return job.finished_at - job.started_at
