"""The roles: who is there, and what waits for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from chronos_site import VERSION
from jobs.doctor.finding import Finding, listed, ok, warn
from jobs.lifecycle import Status
from jobs.repository import Repository
from jobs.repository.nodes import Seen, processes

_ALIVE: Final = timedelta(seconds=10)
"""Five reports that did not come."""
_COUNTED: Final = 10_000
_LACKS: Final = {
    "scheduler": "nothing is dispatched, no template fires",
    "executor": "no job runs",
    "reaper": "nothing that was lost is found again",
}


def live(repository: Repository) -> list[Seen]:
    """The processes that reported lately."""
    return repository.nodes.seen(since=repository.clock.now() - _ALIVE, limit=_COUNTED)


def executors_by_type(seen: Sequence[Seen]) -> Mapping[str, int]:
    """How many executors serve each type."""
    nodes = [each.node for each in seen if each.node.role == "executor"]
    return Counter(name for node in nodes for name in set(node.job_types))


def examine(repository: Repository, seen: Sequence[Seen], *, fans_out: bool) -> Iterator[Finding]:
    """What the register says, and how many dead letters there are."""
    nodes = processes(each.node for each in seen)
    counts = Counter(node.role for node in nodes)
    if counts:
        yield ok("live: " + listed([f"{n} × {role}" for role, n in sorted(counts.items())]))
    if len(seen) == _COUNTED:
        yield warn(
            f"{_COUNTED} processes or more report: no more than these are looked at",
            "If so many do not run, somebody writes to the collection nodes: look at it.",
        )
    versions = {each.version or "unknown" for each in seen}
    if versions - {VERSION}:
        yield warn(
            f"versions of Chronos: {listed(sorted(versions))}; this is {VERSION}",
            "End the upgrade: all roles should have the same.",
        )
    elif versions:
        yield ok(f"all are version {VERSION}")
    lacks = _LACKS | ({"fanout": "nothing is dispatched"} if fans_out else {})
    for role, effect in lacks.items():
        if not counts[role]:
            yield warn(f"no {role} lives: {effect}", f"Start run{role}.")
    if counts["scheduler"]:
        leaders = [node for node in nodes if node.term is not None]
        if not leaders:
            yield warn("no scheduler leads", "Look at etcd or Redis, and the schedulers' logs.")
        else:
            latest = max(leaders, key=lambda node: node.term or 0)
            yield ok(f"{latest.name} leads, term {latest.term}")
    if not repository.facts.indexes().missing:
        yield _dead_letters(repository)


def _dead_letters(repository: Repository) -> Finding:
    dead = repository.census.by_status(limit=_COUNTED)[Status.DLQ]
    if not dead:
        return ok("no dead letters")
    count = f"{dead}" if dead < _COUNTED else f"{_COUNTED} or more"
    return warn(f"{count} dead letters wait", "Redrive or discard them in the admin.")
