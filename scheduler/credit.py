"""How many jobs of each type may be dispatched: what executors can take now, and no more.

Once a message is in Kafka its priority is spent, and a backlog there ages past QUEUED_TIMEOUT. So
the backlog waits in MongoDB, where priority still holds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jobs.repository.dispatch import InFlight
from jobs.repository.nodes import Node

FLOOR: Final = 100
"""Dispatched of a type that nobody serves, so that scaling by consumer lag has something to see."""


@dataclass
class Pool:
    """Executors that serve the same types, and how many jobs they can still take."""

    job_types: frozenset[str]
    free: float


def pools(executors: Iterable[Node], in_flight: Sequence[InFlight]) -> list[Pool]:
    """Group executors by what they serve, and subtract what they hold and what is on its way.

    What an executor holds that no longer reports, or that drains, is not counted: it would block
    the others until its leases end. Queued jobs count against all pools that may take them, by
    their capacity.
    """
    nodes = [node for node in executors if node.capacity]
    held: dict[str | None, int] = defaultdict(int)
    for group in in_flight:
        held[group.executor] += group.count
    free: dict[frozenset[str], float] = defaultdict(float)
    capacity: dict[frozenset[str], int] = defaultdict(int)
    for node in nodes:
        served = frozenset(node.job_types)
        capacity[served] += node.capacity
        # One that holds more than it can take now, as its handlers became slow, blocks only itself.
        free[served] += max(0, node.capacity - held[node.name])
    for group in in_flight:
        if group.executor is None:
            takers = [served for served in capacity if group.job_type in served]
            total = sum(capacity[served] for served in takers)
            for served in takers:
                free[served] -= group.count * capacity[served] / total
    return [Pool(served, max(0.0, left)) for served, left in free.items()]


def credits(
    job_types: Iterable[str],
    executors: Sequence[Node],
    in_flight: Sequence[InFlight],
    portion: float = 1.0,
) -> tuple[list[Pool], dict[str, int]]:
    """What may be dispatched of each type if it had its pools to itself.

    Args:
        job_types: which.
        executors: the live ones.
        in_flight: what they hold, and what is on its way.
        portion: the caller's share of what can be taken, where several dispatch at the same time.
            It is rounded up, so that a single free place is not out of reach for all of them. Then
            each may send one job per pool too many. It waits in Kafka until it has a place, and as
            it counts as in flight, the next look at the pool finds one place less.

    Returns:
        The pools, for `share`, and the credit by type; those with the fewest in flight come first.
    """
    groups = pools(executors, in_flight)
    if portion < 1:
        groups = [Pool(pool.job_types, math.ceil(int(pool.free) * portion)) for pool in groups]
    queued: dict[str, int] = defaultdict(int)
    busy: dict[str, int] = defaultdict(int)
    for group in in_flight:
        busy[group.job_type] += group.count
        if group.executor is None:
            queued[group.job_type] += group.count
    served = {job_type for pool in groups for job_type in pool.job_types}
    credit = {
        job_type: int(sum(pool.free for pool in groups if job_type in pool.job_types))
        if job_type in served
        else math.ceil(max(0, FLOOR - queued[job_type]) * portion)
        for job_type in sorted(job_types, key=lambda job_type: (busy[job_type], job_type))
    }
    return groups, credit


def share(wanted: Mapping[str, int], groups: Sequence[Pool], limit: int) -> dict[str, int]:
    """Divide what the pools can take among the types that want it.

    Each type in turn gets an equal share of what is left, so that one with few due jobs leaves the
    rest to the others and none starves. Types without a pool get what they want (their credit is
    the floor).

    Args:
        wanted: due jobs by type, each at most its credit, in the order of `credits`: of types that
            want the same, the first is served first, which decides about a single free place.
        groups: from `credits`; `free` is used up here.
        limit: jobs in all, at most.
    """
    granted = dict.fromkeys(wanted, 0)
    while True:
        # A type that takes less than its share leaves places that only another deal gives out.
        left = limit - sum(granted.values())
        wants = {t: count - granted[t] for t, count in wanted.items() if count > granted[t]}
        dealt = _deal(wants, groups, left)
        if not any(dealt.values()):
            return granted
        for job_type, count in dealt.items():
            granted[job_type] += count


def _deal(wanted: Mapping[str, int], groups: Sequence[Pool], limit: int) -> dict[str, int]:
    """Give each type in turn its share, once."""
    dealt: dict[str, int] = {}
    # Those that want least come first: what they leave is divided among the rest.
    waiting = sorted(wanted, key=wanted.__getitem__)
    while waiting:
        job_type = waiting[0]
        count = wanted[job_type]
        mine = [pool for pool in groups if job_type in pool.job_types]
        if mine:
            rivals = {id(pool): sum(1 for t in waiting if t in pool.job_types) for pool in mine}
            # Pools that nobody else wants are used up first.
            mine.sort(key=lambda pool: rivals[id(pool)])
            fair = math.ceil(sum(pool.free / rivals[id(pool)] for pool in mine))
            count = min(count, fair, math.floor(sum(pool.free for pool in mine)))
        count = min(count, math.ceil((limit - sum(dealt.values())) / len(waiting)))
        dealt[job_type] = count
        unpaid: float = count
        for pool in mine:
            paid = min(pool.free, unpaid)
            pool.free -= paid
            unpaid -= paid
        waiting.pop(0)
    return dealt
