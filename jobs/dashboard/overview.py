"""The overview: is work late, is it failing, where is it stuck, who is doing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.http import HttpResponse
from django.views.decorators.http import require_safe

from jobs.dashboard.charts import chart_of
from jobs.dashboard.nodes import STALE_AFTER
from jobs.dashboard.page import REFRESH_SECONDS, PageRequest, access, page, use_cases
from jobs.repository.job_lists import COUNTED, Tab
from jobs.repository.nodes import Node, Seen
from jobs.repository.overview import DEAD_COUNTED, TENANTS, Backlog
from jobs.statistics import Resolution, Tally, percentile

_RANGES: Final = {
    "1h": (Resolution.MINUTE, timedelta(hours=1)),
    "24h": (Resolution.QUARTER, timedelta(days=1)),
    "7d": (Resolution.TWO_HOURS, timedelta(days=7)),
}
_HOUR: Final = timedelta(hours=1)
_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class TypeRow:
    """How things are with one job type."""

    job_type: str
    backlog: Backlog | None
    queued: int
    executors: int
    busy: int
    """Of the slots of its executors, whatever type of job is in them."""
    slots: int
    per_minute: float
    """Attempts that ended, over the last hour."""
    failure_percent: float | None
    """Of those; None: none ended."""


@require_safe
def overview(request: PageRequest) -> HttpResponse:
    """/admin/overview/"""
    repository, tenants = use_cases().repository, access(request).tenants
    now = repository.clock.now()
    chosen = request.GET.get("range", "")
    chosen = chosen if chosen in _RANGES else "1h"
    resolution, span = _RANGES[chosen]
    since = resolution.start_of(now) + resolution.step - span
    ended = repository.statistics.read(resolution, since=since, tenants=tenants)
    hour = repository.statistics.read(Resolution.MINUTE, since=now - _HOUR, tenants=tenants)
    backlogs, due_is_complete = repository.overview.backlogs(now=now, tenants=tenants)
    counts = repository.job_lists.counts(tenants)
    dead_letters, dead_is_complete = repository.overview.dead_by_tenant(tenants)
    seen = repository.nodes.seen(since=now - STALE_AFTER)
    nodes = [each.node for each in seen]
    queued, queued_is_complete = repository.overview.queued(tenants=tenants)
    if not queued_is_complete:
        # Of a type that nobody serves, as many as are due may be queued already.
        unserved, _ = repository.overview.queued(besides=_taken(nodes), tenants=tenants)
        queued |= unserved
    due = backlogs.keys() | queued.keys()
    by_stretch: dict[datetime, Tally] = {}
    whole = Tally()
    for (at, _), tally in ended.items():
        by_stretch.setdefault(at, Tally()).add(tally)
        whole.add(tally)
    context = {
        "now": now,
        "problems": problems(nodes, due, fans_out=settings.CHRONOS.scheduler.fans_out),
        "due": sum(each.count for each in backlogs.values()),
        "due_is_complete": due_is_complete,
        "oldest": min((each.oldest for each in backlogs.values()), default=None),
        "queued": counts[Tab.QUEUED],
        "running": counts[Tab.RUNNING],
        "retrying": counts[Tab.RETRYING],
        "counted": COUNTED,
        "dead": counts[Tab.DEAD],
        "dead_counted": DEAD_COUNTED,
        "dead_by_tenant": Counter(dead_letters).most_common(),
        "dead_is_complete": dead_is_complete,
        "tenants_counted": TENANTS,
        "ranges": list(_RANGES),
        "chosen": chosen,
        "whole": whole,
        "chart": chart_of(by_stretch, resolution, since=since, now=now),
        "lags": {name: percentile(whole.lags, share) for name, share in _SHARES.items()},
        "types": _types(backlogs, queued, nodes, hour),
        "queued_is_complete": queued_is_complete,
        "roles": _roles(seen),
    }
    return page(
        request, "dashboard/overview.html", "Overview", context, refresh_seconds=REFRESH_SECONDS
    )


def problems(nodes: Collection[Node], due: Collection[str], *, fans_out: bool = False) -> list[str]:
    """What keeps jobs from running, as sentences that say what to do.

    Args:
        nodes: the processes that are alive.
        due: types of jobs that are due, queued or not.
        fans_out: whether fan-out workers dispatch (DISPATCH).
    """
    found = []
    if not any(node.role == "scheduler" and node.term is not None for node in nodes):
        found.append(
            "No scheduler leads: jobs that become due are not queued. "
            "Start one (python manage.py runscheduler), or see whether etcd or Redis answers."
        )
    if fans_out and not any(node.role == "fanout" for node in nodes):
        found.append(
            "No fan-out worker is running: jobs that become due are not queued. "
            "Start one with manage.py runfanout."
        )
    if not any(node.role == "reaper" for node in nodes):
        found.append(
            "No reaper is running: jobs of executors that died are not taken back. "
            "Start one with manage.py runreaper."
        )
    found.extend(
        f"Jobs of type {job_type} are due and no executor takes them. "
        f"Start one: python manage.py runexecutor --type {job_type}"
        for job_type in sorted(set(due) - _taken(nodes))
    )
    return found


def _taken(nodes: Collection[Node]) -> set[str]:
    """The types of which some executor takes jobs."""
    taking = [node for node in nodes if node.role == "executor" and not node.is_draining]
    return {each for node in taking for each in node.job_types}


def _types(
    backlogs: Mapping[str, Backlog],
    queued: Mapping[str, int],
    nodes: Collection[Node],
    hour: Mapping[tuple[datetime, str], Tally],
) -> list[TypeRow]:
    tallies: dict[str, Tally] = {}
    for (_, job_type), tally in hour.items():
        tallies.setdefault(job_type, Tally()).add(tally)
    executors = [node for node in nodes if node.role == "executor"]
    served = {each for node in executors for each in node.job_types}
    rows = []
    for job_type in sorted(backlogs.keys() | queued.keys() | tallies.keys() | served):
        serving = [node for node in executors if job_type in node.job_types]
        tally = tallies.get(job_type, Tally())
        rows.append(
            TypeRow(
                job_type,
                backlogs.get(job_type),
                queued.get(job_type, 0),
                len(serving),
                sum(node.busy or 0 for node in serving),
                sum(node.slots or 0 for node in serving),
                tally.ended / 60,
                100 * tally.failed / tally.ended if tally.ended else None,
            )
        )
    return rows


def _roles(seen: Sequence[Seen]) -> list[Seen]:
    """Whoever leads first, then by role."""
    return sorted(seen, key=lambda each: (each.node.term is None, each.node.role, each.node.name))
