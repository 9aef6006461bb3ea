"""The roles: who is there, and what waits for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from chronos_site import VERSION
from jobs.doctor.finding import Finding, fail, ok, warn
from jobs.lifecycle import Status
from jobs.messages import TRIGGERS_TOPIC, dispatch_topic
from jobs.repository import Repository
from jobs.repository.nodes import Seen, processes
from jobs.wording import listed

_ALIVE: Final = timedelta(seconds=10)
"""Five reports that did not come."""
_COUNTED: Final = 10_000
_LACKS: Final = {
    "scheduler": "nothing is dispatched, no template fires",
    "reaper": "nothing that was lost is found again",
}


def live(repository: Repository) -> list[Seen]:
    """The processes that reported lately."""
    return repository.nodes.seen(since=repository.clock.now() - _ALIVE, limit=_COUNTED)


def versions(seen: Sequence[Seen]) -> set[str]:
    """The versions of Chronos that live."""
    return {each.version or "unknown" for each in seen}


def readers(seen: Sequence[Seen]) -> Mapping[str, int]:
    """How many processes read each topic."""
    counts: Counter[str] = Counter()
    for node in (each.node for each in seen):
        if node.role == "executor":
            counts.update(dispatch_topic(name) for name in set(node.job_types))
        elif node.role == "fanout":
            counts[TRIGGERS_TOPIC] += 1
    return counts


def examine(repository: Repository, seen: Sequence[Seen], *, fans_out: bool) -> Iterator[Finding]:
    """What the register says, and how many dead letters there are."""
    yield from judge_register(seen, fans_out=fans_out)
    if not repository.facts.indexes().missing:
        yield judge_dead_letters(repository.census.by_status(limit=_COUNTED)[Status.DLQ])


def judge_register(seen: Sequence[Seen], *, fans_out: bool) -> Iterator[Finding]:
    """Whether somebody does the work of each role.

    Args:
        seen: see `live`.
        fans_out: whether fan-out workers have some.
    """
    nodes = processes(each.node for each in seen)
    counts = Counter(node.role for node in nodes)
    if counts:
        yield ok("live: " + listed([f"{n} × {role}" for role, n in sorted(counts.items())]))
    if len(seen) == _COUNTED:
        yield warn(
            f"{_COUNTED} processes or more report: no more than these are looked at",
            "If so many do not run, somebody writes to the collection nodes: look at it.",
        )
    living = versions(seen)
    if living - {VERSION}:
        yield warn(
            f"versions of Chronos: {listed(sorted(living))}; this is {VERSION}",
            "End the upgrade: all roles should have the same.",
        )
    elif living:
        yield ok(f"all are version {VERSION}")
    lacks = _LACKS | ({"fanout": "nothing is dispatched"} if fans_out else {})
    for role, effect in lacks.items():
        if not counts[role]:
            yield fail(f"no {role} lives: {effect}", f"Start run{role}.")
    if not counts["executor"]:
        # Not a failure: none may be needed just now.
        yield warn(
            "no executor lives: no job runs", "Start runexecutor, unless due jobs do so (KEDA)."
        )
    if counts["scheduler"]:
        leaders = [node for node in nodes if node.term is not None]
        if not leaders:
            yield fail("no scheduler leads", "Look at etcd or Redis, and the schedulers' logs.")
        else:
            latest = max(leaders, key=lambda node: node.term or 0)
            yield ok(f"{latest.name} leads, term {latest.term}")


def judge_dead_letters(dead: int) -> Finding:
    """Whether people have to look at some."""
    if not dead:
        return ok("no dead letters")
    count = f"{dead}" if dead < _COUNTED else f"{_COUNTED} or more"
    return warn(f"{count} dead letters wait", "Redrive or discard them in the admin.")
