"""MongoDB: version, members, write concern, clock, indexes, fields."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from jobs.doctor.finding import Examination, Finding, examined, fail, ok, warn
from jobs.errors import StoreRefused
from jobs.repository import Repository
from jobs.repository.facts import IndexState, Member, Oplog, ReplicaSet
from jobs.wording import listed

_OLDEST: Final = (6, 0)
"""What django-mongodb-backend 5.2 works with."""
_LAG: Final = timedelta(seconds=10)
_CLOCK: Final = timedelta(seconds=1)
_OPLOG: Final = timedelta(hours=24)
_MIGRATE: Final = "Run: python manage.py migrate"


def examine(repository: Repository) -> Iterator[Finding]:
    """All about MongoDB. A part that the user has no right to see is said and left out."""
    # Its sentence also tells of certificates.
    repository.ping()
    yield judge_version(repository.facts.version())
    if repository.facts.is_sharded():
        yield ok("a sharded cluster: its shards tell about members and oplog")
        yield judge_clock("the router's clock", repository.facts.clock_offset())
    else:
        yield from examined(lambda: _set(repository))
    yield from examined(lambda: _indexes(repository))


def judge_version(version: str) -> Finding:
    """Whether MongoDB is new enough."""
    if tuple(map(int, version.split(".")[:2])) < _OLDEST:
        return fail(f"version {version}", "Upgrade to 6.0 or later.")
    return ok(f"version {version}")


def _set(repository: Repository) -> Iterator[Finding]:
    facts = repository.facts
    parts: dict[str, Examination] = {
        "members": lambda: judge_members(facts.replica_set()),
        "oplog": lambda: judge_oplog(facts.oplog()),
    }
    for name, part in parts.items():
        try:
            yield from part()
        except StoreRefused:
            yield warn(
                f"its {name} cannot be seen: the user lacks the right",
                "Grant clusterMonitor, and read on the database local.",
            )
    yield from _clock(repository)


def judge_members(replica_set: ReplicaSet) -> Iterator[Finding]:
    """Whether writes are confirmed, also after a loss. Members without a vote confirm none."""
    voters = sum(member.is_voter for member in replica_set.members)
    voting = sum(member.is_voter and member.is_healthy for member in replica_set.members)
    states = ", ".join(f"{member.name} {member.state}" for member in replica_set.members)
    text = (
        f"replica set {replica_set.name}: {states}; {voting} of {voters} voters healthy, "
        f"a write needs {replica_set.majority}"
    )
    if voting < replica_set.majority:
        yield fail(text, "Bring members back: no write is confirmed until then.")
    elif voting < voters:
        yield warn(text, "Bring the others back: another loss may stop all writes.")
    elif voting - 1 < replica_set.majority:
        yield warn(
            text,
            "Have three members that vote and hold data (rs.add): the loss of one stops all "
            "writes.",
        )
    else:
        yield ok(text)
    for member in replica_set.members:
        yield from _judge_member(member)
    if replica_set.is_majority_journaled:
        yield ok("a majority confirms a write when it is in their journals")
    else:
        yield warn(
            "a majority confirms a write before it is in their journals",
            "Set writeConcernMajorityJournalDefault to true by replSetReconfig.",
        )


def _judge_member(member: Member) -> Iterator[Finding]:
    if not member.is_healthy:
        if not member.is_voter:
            yield warn(
                f"{member.name} is {member.state}; no write waits for it",
                "Bring it back: what it is for, such as backups, is not done.",
            )
    elif member.lag is not None and member.lag > _LAG:
        text = f"{member.name} is {member.lag.total_seconds():.0f} s behind the primary"
        if member.is_voter:
            yield warn(text, "Look at its load and its network: writes wait for the majority.")
        else:
            # As while it is locked for a backup.
            yield ok(f"{text}; no write waits for it")


def judge_oplog(oplog: Oplog) -> Iterator[Finding]:
    """For how long a member may be away."""
    hours = oplog.window / timedelta(hours=1)
    if not oplog.is_full:
        yield ok(f"oplog: {hours:.1f} hours so far, not yet full")
    elif oplog.window < _OPLOG:
        yield warn(
            f"oplog: a member that was away for {hours:.1f} hours must be synchronised anew",
            "Make it larger by replSetResizeOplog.",
        )
    else:
        yield ok(f"oplog: {hours:.1f} hours")


def _clock(repository: Repository) -> Iterator[Finding]:
    yield judge_clock("the primary's clock", repository.facts.clock_offset())
    try:
        members = repository.facts.replica_set().members
    except StoreRefused:
        return
    for member in members:
        if member.is_healthy and member.lag is not None:
            yield judge_clock(f"{member.name}'s clock", repository.facts.clock_offset(member.name))


def judge_clock(whose: str, offset: timedelta) -> Finding:
    """Whether a clock, which is ahead by `offset`, goes with this host's."""
    text = f"{whose} is {offset.total_seconds():+.3f} s from this host's"
    if abs(offset) > _CLOCK:
        return warn(text, "Synchronise both: log lines and certificates go by the host's clock.")
    return ok(text)


def _indexes(repository: Repository) -> Iterator[Finding]:
    state = repository.facts.indexes()
    yield from judge_indexes(state)
    if not state.missing:
        yield from _fields(repository)


def judge_indexes(state: IndexState) -> Iterator[Finding]:
    """Whether they are those that `migrate` makes."""
    if state.missing:
        yield fail(f"indexes are missing: {listed(state.missing)}", _MIGRATE)
    else:
        yield ok("all indexes are there")
    if state.building:
        yield warn(f"indexes are being built: {listed(state.building)}", "Wait until they are.")
    if state.changed:
        yield fail(
            f"indexes with other keys than ours: {listed(state.changed)}",
            f"Drop them. {_MIGRATE}",
        )
    if state.obsolete:
        yield warn(
            f"indexes that only earlier versions use: {listed(state.obsolete)}",
            "When no role of an earlier version lives, run: python manage.py migrate "
            "--drop-obsolete",
        )
    if state.extra:
        yield warn(
            f"indexes that Chronos does not use: {listed(state.extra)}",
            "Drop them if nothing of yours needs them: each costs every write.",
        )


def _fields(repository: Repository) -> Iterator[Finding]:
    if unknown := repository.facts.unknown_fields():
        counted = listed([f"{name} ({count})" for name, count in unknown.items()])
        yield warn(
            f"the newest jobs have fields that Chronos does not know: {counted}",
            "They were written by hand or by a newer version: upgrade this one, or remove them.",
        )
    else:
        yield ok("the newest jobs have no field that Chronos does not know")
