"""How pages show instants, durations, statuses and attempts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from django import template
from django.template.context import Context
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.dashboard.page import utc
from jobs.lifecycle import Job, Status

register = template.Library()

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SHOWN_STATUS: Final[Mapping[str, str]] = {"dlq": "dead letter", "handed_back": "handed back"}
_MAY_BE_LATE: Final = timedelta(seconds=1)


def in_words(span: timedelta) -> str:
    """A duration in its two largest units: 3 min 4 s, 1.25 s, 12 ms. The sign is lost."""
    seconds = abs(span).total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    whole = round(seconds)
    for place, (size, unit) in enumerate(_UNITS):
        if whole >= size:
            rest = whole % size
            smaller = _UNITS[place + 1] if place + 1 < len(_UNITS) else None
            if smaller is None or rest < smaller[0]:
                return f"{whole // size} {unit}"
            return f"{whole // size} {unit} {rest // smaller[0]} {smaller[1]}"
    return "0 s"


@register.filter
def duration(span: timedelta | None) -> str:
    """`{{ span|duration }}`; nothing for None."""
    return "" if span is None else in_words(span)


@register.simple_tag(takes_context=True)
def ago(context: Context, at: object) -> str | SafeString:
    """`{% ago job.created_at %}`: relative to the context's `now`, with the UTC instant as title.

    None shows a dash; what is no instant, as after an edit by hand, is shown as it is.
    """
    if at is None:
        return "–"
    if not isinstance(at, datetime):
        return str(at)
    now: datetime = context.get("now") or datetime.now(UTC)
    span = now - at
    if abs(span) < _MAY_BE_LATE:
        shown = "now"
    elif span > timedelta(0):
        shown = f"{_rounded(span)} ago"
    else:
        shown = f"in {_rounded(span)}"
    return instant(at, shown)


def instant(at: datetime, shown: str) -> SafeString:
    """An instant under another text, with itself as title."""
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), utc(at), shown)


@register.filter
def exact(at: datetime | None) -> str | SafeString:
    """`{{ at|exact }}`: the UTC instant itself; a dash for None."""
    return "–" if at is None else instant(at, utc(at))


@register.filter
def status(value: object) -> SafeString:
    """`{{ job.status|status }}`: a badge for a status or an outcome."""
    name = str(value)
    return format_html(
        '<span class="status status-{}">{}</span>', name, _SHOWN_STATUS.get(name, name)
    )


@register.filter
def template_status(value: object) -> SafeString:
    """`{{ template.status|template_status }}`: as `status`, but one that fires is active."""
    return status("active" if str(value) == Status.PENDING else value)


@register.filter
def attempts(job: Job) -> str:
    """`{{ job|attempts }}`: the attempts that began, of how many: 3 / 5."""
    return f"{job.attempts_begun} / {job.max_attempts}"


@register.filter
def capped(count: int, limit: int) -> str:
    """`{{ count|capped:1000 }}`: 213, or 1,000+ where counting went beyond that and stopped."""
    return f"{limit:,}+" if count > limit else f"{count:,}"


def _rounded(span: timedelta) -> str:
    """In one unit, so that it can be read at a glance."""
    seconds = round(abs(span).total_seconds())
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return "0 s"
