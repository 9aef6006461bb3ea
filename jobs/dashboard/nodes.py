"""The processes: who is there, what each does, and who went without a word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.http import HttpResponse
from django.views.decorators.http import require_safe

from jobs.dashboard.page import REFRESH_SECONDS, PageRequest, page, use_cases
from jobs.repository.nodes import Node, Seen

STALE_AFTER: Final = timedelta(seconds=10)
"""Five reports that did not come."""
_FORGOTTEN_AFTER: Final = timedelta(days=1)
_ROLES: Final = ("scheduler", "fanout", "executor", "reaper")


@dataclass(frozen=True, slots=True)
class Row:
    """A process as the list shows it."""

    node: Node
    seen_at: datetime
    is_stale: bool
    """It gives no sign of life."""
    state: str
    badge: str
    """The class of the state's colour."""


@require_safe
def nodes(request: PageRequest) -> HttpResponse:
    """/admin/nodes/"""
    repository = use_cases().repository
    now = repository.clock.now()
    rows = [_row(each, now) for each in repository.nodes.seen(since=now - _FORGOTTEN_AFTER)]
    rows.sort(key=lambda row: (row.is_stale, _place(row.node.role), row.node.name))
    context = {"rows": rows, "missing": _missing(rows), "now": now}
    return page(request, "dashboard/nodes.html", "Nodes", context, refresh_seconds=REFRESH_SECONDS)


def _row(seen: Seen, now: datetime) -> Row:
    node = seen.node
    if now - seen.at > STALE_AFTER:
        return Row(node, seen.at, True, "no sign of life", "lost")
    if node.is_draining:
        return Row(node, seen.at, False, "draining: takes no more", "paused")
    if node.term is not None:
        return Row(node, seen.at, False, f"leads (term {node.term})", "completed")
    if node.role == "scheduler":
        return Row(node, seen.at, False, "stands by", "idle")
    return Row(node, seen.at, False, "serves", "completed")


def _place(role: str) -> int:
    return _ROLES.index(role) if role in _ROLES else len(_ROLES)


def _missing(rows: Sequence[Row]) -> list[str]:
    """The roles that nobody serves and without which jobs do not end."""
    there = {row.node.role for row in rows if not row.is_stale}
    fans_out = settings.CHRONOS.scheduler.fans_out
    return [role for role in _ROLES if role not in there and (role != "fanout" or fans_out)]
