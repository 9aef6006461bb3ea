"""What the doctor makes of facts that no test server has: lost members, full oplogs, old etcds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from chronos_site import VERSION
from chronos_site.config import BrokerConfig
from jobs.broker.cluster import Topic
from jobs.doctor.election import judge_member, judge_quorum, judge_redis
from jobs.doctor.finding import Finding, Level
from jobs.doctor.kafka import judge_topics
from jobs.doctor.mongodb import (
    judge_clock,
    judge_indexes,
    judge_members,
    judge_oplog,
    judge_version,
)
from jobs.doctor.roles import judge_dead_letters, judge_register, readers
from jobs.messages import DLQ_TOPIC
from jobs.repository.facts import IndexState, Member, Oplog, ReplicaSet
from jobs.repository.nodes import Node, Seen

OK, WARN, FAIL = Level.OK, Level.WARN, Level.FAIL
NOW: Final = datetime(2026, 3, 1, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)

PRIMARY: Final = Member("db1", "PRIMARY", is_healthy=True, is_voter=True, lag=None)
SECONDARY: Final = Member("db2", "SECONDARY", is_healthy=True, is_voter=True, lag=SECOND)
THIRD: Final = replace(SECONDARY, name="db3")
LOST: Final = replace(THIRD, state="(not reachable/healthy)", is_healthy=False, lag=None)
BACKUP: Final = replace(SECONDARY, name="backup1", is_voter=False)

TOPIC: Final = Topic(partitions=8, replicas=3, offline=0, behind=0)
BROKER: Final = BrokerConfig(("k:9092",), partitions=8, replication=3)
REDIS: Final = {"redis_version": "7.0", "role": "master", "maxmemory_policy": "noeviction"}


def members(*found: Member, majority: int = 2, is_journaled: bool = True) -> list[Finding]:
    return list(judge_members(ReplicaSet("rs0", found, majority, is_journaled)))


def troubles(findings: Iterable[Finding]) -> list[tuple[Level, str]]:
    """What is not well, each with a remedy."""
    found = [each for each in findings if each.level is not OK]
    assert all(each.remedy for each in found)
    return [(each.level, each.text) for each in found]


@pytest.mark.parametrize(
    ("version", "level"), [("5.0.31", FAIL), ("6.0.5", OK), ("8.0.30", OK), ("10.0.0", OK)]
)
def test_a_mongodb_before_6_fails(version: str, level: Level) -> None:
    assert judge_version(version).level is level


def test_three_members_that_vote_are_well() -> None:
    assert troubles(members(PRIMARY, SECONDARY, THIRD)) == []


@pytest.mark.parametrize(
    ("found", "level", "remedy"),
    [
        ((PRIMARY, replace(LOST, name="db2"), LOST), FAIL, "no write is confirmed until then"),
        ((PRIMARY, SECONDARY, LOST), WARN, "another loss may stop all writes"),
        ((PRIMARY, SECONDARY), WARN, "Have three members that vote"),
        ((PRIMARY, SECONDARY, BACKUP), WARN, "Have three members that vote"),
    ],
    ids=["no majority", "one lost", "two", "two and a backup"],
)
def test_losses_of_members_that_vote_are_judged_by_the_majority(
    found: tuple[Member, ...], level: Level, remedy: str
) -> None:
    first = members(*found)[0]

    assert first.level is level
    assert remedy in (first.remedy or "")
    assert f"{sum(m.is_voter and m.is_healthy for m in found)} of " in first.text


def test_a_member_that_votes_and_lags_holds_writes_up() -> None:
    [(level, text)] = troubles(members(PRIMARY, replace(SECONDARY, lag=11 * SECOND), THIRD))

    assert (level, text) == (WARN, "db2 is 11 s behind the primary")


def test_a_member_without_a_vote_that_is_locked_for_a_backup_is_well() -> None:
    found = members(PRIMARY, SECONDARY, THIRD, replace(BACKUP, lag=HOUR))

    assert troubles(found) == []
    assert "backup1 is 3600 s behind the primary; no write waits for it" in [f.text for f in found]


def test_the_loss_of_a_member_without_a_vote_stops_no_write() -> None:
    found = members(PRIMARY, SECONDARY, THIRD, replace(LOST, name="backup1", is_voter=False))

    assert found[0].level is OK
    assert troubles(found) == [
        (WARN, "backup1 is (not reachable/healthy); no write waits for it"),
    ]


def test_a_majority_without_journals_is_a_warning() -> None:
    found = members(PRIMARY, SECONDARY, THIRD, is_journaled=False)

    assert troubles(found) == [(WARN, "a majority confirms a write before it is in their journals")]


@pytest.mark.parametrize(
    ("oplog", "level"),
    [
        (Oplog(23 * HOUR, is_full=True), WARN),
        (Oplog(24 * HOUR, is_full=True), OK),
        (Oplog(HOUR, is_full=False), OK),
    ],
)
def test_an_oplog_of_less_than_a_day_is_a_warning_when_it_is_full(
    oplog: Oplog, level: Level
) -> None:
    [finding] = judge_oplog(oplog)

    assert finding.level is level


@pytest.mark.parametrize(
    ("offset", "level"), [(2 * SECOND, WARN), (-2 * SECOND, WARN), (SECOND, OK), (-SECOND, OK)]
)
def test_clocks_may_differ_by_a_second(offset: timedelta, level: Level) -> None:
    finding = judge_clock("db2's clock", offset)

    assert finding.level is level
    assert finding.text == f"db2's clock is {offset.total_seconds():+.3f} s from this host's"


NO_INDEXES: Final = IndexState((), (), (), (), ())


@pytest.mark.parametrize(
    ("kind", "level", "text"),
    [
        ("missing", FAIL, "indexes are missing: jobs.a"),
        ("changed", FAIL, "indexes with other keys than ours: jobs.a"),
        ("building", WARN, "indexes are being built: jobs.a"),
        ("obsolete", WARN, "indexes that only earlier versions use: jobs.a"),
        ("extra", WARN, "indexes that Chronos does not use: jobs.a"),
    ],
)
def test_indexes_that_differ_are_told_by_how_they_differ(
    kind: str, level: Level, text: str
) -> None:
    assert troubles(judge_indexes(NO_INDEXES)) == []

    assert troubles(judge_indexes(replace(NO_INDEXES, **{kind: ("jobs.a",)}))) == [(level, text)]


@pytest.mark.parametrize(
    ("topic", "level", "text"),
    [
        (replace(TOPIC, offline=2, behind=3), FAIL, "t: nobody leads 2 of 8 partitions"),
        (replace(TOPIC, behind=3), WARN, "t: 3 of 8 partitions lack a replica in step"),
        (replace(TOPIC, replicas=2), WARN, "t: replicas: 2, KAFKA_REPLICATION is 3"),
        (replace(TOPIC, partitions=4), WARN, "t has 4 partitions, KAFKA_PARTITIONS is 8"),
    ],
)
def test_topics_are_judged_by_their_partitions(topic: Topic, level: Level, text: str) -> None:
    assert troubles(judge_topics({"t": TOPIC}, BROKER)) == []

    assert troubles(judge_topics({"t": topic}, BROKER)) == [(level, text)]


def test_the_topic_of_dead_letters_may_have_fewer_partitions() -> None:
    assert troubles(judge_topics({DLQ_TOPIC: replace(TOPIC, partitions=1)}, BROKER)) == []


@pytest.mark.parametrize(
    ("version", "level"),
    [
        *(("3.3.9", WARN), ("3.4.30", WARN), ("3.4.31", OK), ("3.5.12", WARN), ("3.5.13", OK)),
        *(("3.6.0", OK), ("3.6.0-rc.1", OK), ("4.0.0", OK)),
    ],
)
def test_an_etcd_is_too_old_before_the_release_that_mended_its_leases(
    version: str, level: Level
) -> None:
    finding = judge_member("etcd1:2379", version, {"health": "true"})

    assert finding.level is level
    assert f"version {version}" in finding.text


@pytest.mark.parametrize(
    ("health", "reason"),
    [
        ({"health": "false"}, "without a leader"),
        ({"health": "false", "reason": "RAFT NO LEADER"}, "RAFT NO LEADER"),
        ({"health": False, "reason": "ALARM NOSPACE"}, "ALARM NOSPACE"),
    ],
)
def test_an_etcd_without_a_leader_or_room_fails(health: dict[str, Any], reason: str) -> None:
    [(level, text)] = troubles([judge_member("etcd1:2379", "3.6.0", health)])

    assert (level, text) == (FAIL, f"etcd1:2379: version 3.6.0, not healthy: {reason}")


@pytest.mark.parametrize(
    ("healthy", "members", "is_said"),
    [(3, 3, False), (2, 3, False), (1, 3, True), (2, 4, True), (1, 1, False), (0, 3, False)],
)
def test_most_members_of_etcd_must_answer(healthy: int, members: int, is_said: bool) -> None:
    found = troubles(judge_quorum(healthy, members))

    text = f"{healthy} of {members} members answer: nobody can be elected"
    assert found == ([(FAIL, text)] if is_said else [])


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        ({}, []),
        ({"role": "slave"}, [(FAIL, "it is a replica, which refuses writes")]),
        (
            {"maxmemory_policy": "allkeys-lru"},
            [(WARN, "maxmemory-policy is allkeys-lru: short of memory, it may drop the leader's ")],
        ),
    ],
)
def test_a_redis_that_cannot_keep_the_leaders_key_is_told(
    change: dict[str, str], trouble: list[tuple[Level, str]]
) -> None:
    found = troubles(judge_redis({**REDIS, **change}))

    assert [level for level, _ in found] == [level for level, _ in trouble]
    for (_, text), (_, beginning) in zip(found, trouble, strict=True):
        assert text.startswith(beginning)


def seen(role: str, *job_types: str, term: int | None = None, version: str = VERSION) -> Seen:
    return Seen(Node(f"a-{role}", role, NOW, job_types, term=term), NOW, version)


LIVING: Final = (seen("scheduler", term=3), seen("executor", "noop"), seen("reaper"))


@pytest.mark.parametrize(
    ("absent", "fans_out", "trouble"),
    [
        ("none", False, []),
        (
            "scheduler",
            False,
            [(FAIL, "no scheduler lives: nothing is dispatched, no template fires")],
        ),
        ("reaper", False, [(FAIL, "no reaper lives: nothing that was lost is found again")]),
        ("executor", False, [(WARN, "no executor lives: no job runs")]),
        ("none", True, [(FAIL, "no fanout lives: nothing is dispatched")]),
    ],
)
def test_a_role_that_nobody_serves_is_told(
    absent: str, fans_out: bool, trouble: list[tuple[Level, str]]
) -> None:
    there = [each for each in LIVING if each.node.role != absent]

    assert troubles(judge_register(there, fans_out=fans_out)) == trouble


def test_schedulers_of_which_none_leads_are_a_failure() -> None:
    standing_by = [seen("scheduler"), *LIVING[1:]]

    assert troubles(judge_register(standing_by, fans_out=False)) == [
        (FAIL, "no scheduler leads"),
    ]


def test_the_leader_of_the_latest_term_is_named() -> None:
    earlier, later = (
        Seen(Node(name, "scheduler", NOW, term=term), NOW, VERSION)
        for name, term in (("earlier", 3), ("later", 4))
    )

    texts = [each.text for each in judge_register([later, earlier, *LIVING[1:]], fans_out=False)]

    assert "later leads, term 4" in texts


def test_readers_are_counted_by_topic() -> None:
    found = [*LIVING, seen("executor", "noop", "slow"), seen("fanout"), seen("fanout")]

    assert readers(found) == {
        "jobs.dispatch.noop": 2,
        "jobs.dispatch.slow": 1,
        "bucket-triggers": 2,
    }


@pytest.mark.parametrize(
    ("count", "level", "text"),
    [
        (0, OK, "no dead letters"),
        (7, WARN, "7 dead letters wait"),
        (10_000, WARN, "10000 or more dead letters wait"),
    ],
)
def test_dead_letters_wait_for_people(count: int, level: Level, text: str) -> None:
    finding = judge_dead_letters(count)

    assert (finding.level, finding.text) == (level, text)
