"""`manage.py doctor` on real servers: well, away, and with something missing."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings
from pymongo import MongoClient
from redis import Redis as Client

from chronos_site.config import BrokerConfig, Config, ElectionConfig, StoreConfig
from devstack.etcd import Etcd
from devstack.mongo import Mongod
from devstack.process import accepts
from devstack.redis import Redis
from jobs.broker.topics import ensure_topics, topics_for
from jobs.doctor import kafka, mongodb, roles
from jobs.doctor.election import examine_etcd, examine_redis
from jobs.doctor.finding import Finding, Level
from jobs.messages import dispatch_topic
from jobs.registry import known_types
from jobs.repository import Repository
from jobs.repository.nodes import Node, Seen
from tests.builders import a_job
from tests.processes import MANAGE, RoleProcess
from tests.waiting import wait_for

AWAY: Final = "127.0.0.1:1"


def doctor(config: Config) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit status, and what was found of each part."""
    output, status = StringIO(), 0
    with override_settings(CHRONOS=config):
        try:
            call_command("doctor", "--json", stdout=output)
        except SystemExit as exc:
            status = int(exc.code or 0)
    return status, json.loads(output.getvalue())["parts"]


def alive_for_long(repo: Repository) -> datetime:
    """When to have reported, so as to be alive however long the doctor takes."""
    return repo.clock.now() + timedelta(minutes=1)


def all_live(repo: Repository) -> None:
    """Report a process of each role that has to live."""
    now = alive_for_long(repo)
    for role in ("executor", "reaper"):
        repo.nodes.report(Node(role, role, now, ("noop",)), now=now)
    repo.nodes.report(Node("one", "scheduler", now, term=7), now=now)


def levels(part: list[dict[str, Any]]) -> set[str]:
    return {finding["level"] for finding in part}


def texts(findings: list[Finding], level: Level) -> str:
    return "\n".join(finding.text for finding in findings if finding.level is level)


@pytest.fixture
def provisioned(chronos_config: Config, repo: Repository) -> Config:
    """Indexes and topics are there."""
    ensure_topics(chronos_config.broker, topics_for(known_types()))
    return chronos_config


def test_servers_that_are_well_fail_nothing(provisioned: Config, repo: Repository) -> None:
    all_live(repo)
    assert repo.jobs.insert([a_job()])

    status, parts = doctor(provisioned)

    assert status == 0, parts
    assert list(parts) == ["MongoDB", "Kafka", "etcd", "Roles"]
    found = json.dumps(parts, ensure_ascii=False)
    for fact in (
        *("version 6.0", "1 of 1 voters healthy", "oplog: ", "the primary's clock is ", "journals"),
        *("all indexes are there", "no field that Chronos does not know", "brokers: 1"),
        *("4 partitions", "one leads, term 7", "no dead letters", "all are version", "1 × reaper"),
    ):
        assert fact in found
    assert levels(parts["Roles"]) == {"ok"}


@pytest.mark.parametrize("away", ["MongoDB", "Kafka", "etcd", "Redis"])
def test_each_server_that_is_away_is_said_and_the_others_answer(
    away: str, provisioned: Config, repo: Repository
) -> None:
    secret = "hidden-word"  # noqa: S105 - to be looked for
    changes: dict[str, dict[str, Any]] = {
        "MongoDB": {"store": StoreConfig(f"mongodb://u:{secret}@{AWAY}/", "chronos")},
        "Kafka": {"broker": BrokerConfig((AWAY,))},
        "etcd": {"election": ElectionConfig("etcd", (AWAY,))},
        "Redis": {"election": ElectionConfig("redis", (), redis_url=f"redis://:{secret}@{AWAY}/0")},
    }

    all_live(repo)

    status, parts = doctor(replace(provisioned, **changes[away]))

    assert status == 1
    assert secret not in json.dumps(parts)
    failing = {name for name, part in parts.items() if "fail" in levels(part)}
    assert "Start it, or bring it back; else check" in json.dumps(parts[away])
    assert "ETCD_TLS" not in json.dumps(parts)
    # The register of the roles is in MongoDB.
    assert failing == ({"MongoDB", "Roles"} if away == "MongoDB" else {away})


def test_mongodb_is_waited_for_once_though_two_parts_need_the_register(
    provisioned: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Repository] = []

    def asking(repository: Repository) -> list[Seen]:
        asked.append(repository)
        return live(repository)

    live = roles.live
    monkeypatch.setattr(roles, "live", asking)

    doctor(replace(provisioned, store=StoreConfig(f"mongodb://{AWAY}/", "chronos")))

    assert len(asked) == 1


def test_a_redis_that_says_nothing_is_asked_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        election = ElectionConfig("redis", (), redis_url=f"redis://127.0.0.1:{port}/0")

        [finding] = examine_redis(election)

        assert finding.text.startswith("it does not answer")
        silent.accept()[0].close()
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_what_answers_and_is_no_etcd_may_speak_tls(
    provisioned: Config, mongo_server: Mongod
) -> None:
    election = ElectionConfig("etcd", (mongo_server.address,))

    [finding] = doctor(replace(provisioned, election=election))[1]["etcd"]

    assert finding["level"] == "fail"
    assert finding["remedy"].startswith("Check ETCD_ENDPOINTS, ETCD_TLS_CA")


class SmallEtcd(Etcd):
    """An etcd whose quota the first large value uses up."""

    def command(self) -> list[str]:
        return [*super().command(), "--quota-backend-bytes=65536"]


def test_an_etcd_that_is_full_says_so(tmp_path: Path) -> None:
    etcd = SmallEtcd(tmp_path / "etcd", binary=settings.ENV["ETCD_BIN"])
    etcd.start()
    try:
        etcd.wait_ready()
        large = b64encode(bytes(100_000)).decode()
        httpx.post(
            f"http://{etcd.address}/v3/kv/put",
            json={"key": "aw==", "value": large},
            trust_env=False,
        )

        [finding] = examine_etcd(ElectionConfig("etcd", (etcd.address,)))
    finally:
        etcd.kill()

    assert finding.text.endswith("not healthy: ALARM NOSPACE")
    assert "alarm disarm" in (finding.remedy or "")


def test_indexes_that_differ_are_named(provisioned: Config, mongo_server: Mongod) -> None:
    client: MongoClient[dict[str, Any]] = MongoClient(mongo_server.location)
    with client:
        jobs = client[provisioned.store.database]["jobs"]
        jobs.drop_index("dispatch")
        jobs.create_index("somethingElse", name="ours")
        jobs.drop_index("pauses")
        jobs.create_index("jobType", name="pauses")
        jobs.create_index("scheduledAt", name="due")

    status, parts = doctor(provisioned)

    assert status == 1
    found = {finding["text"]: finding for finding in parts["MongoDB"]}
    missing = found["indexes are missing: jobs.dispatch"]
    assert missing["remedy"] == "Run: python manage.py migrate"
    assert found["indexes with other keys than ours: jobs.pauses"]["level"] == "fail"
    assert found["indexes that Chronos does not use: jobs.ours"]["level"] == "warn"
    obsolete = found["indexes that only earlier versions use: jobs.due"]
    assert obsolete["level"] == "warn"
    assert obsolete["remedy"].endswith("run: python manage.py migrate --drop-obsolete")


def test_a_field_that_nobody_knows_is_named(
    provisioned: Config, repo: Repository, mongo_server: Mongod
) -> None:
    jobs = [a_job(), a_job()]
    assert repo.jobs.insert(jobs)
    client: MongoClient[dict[str, Any]] = MongoClient(mongo_server.location)
    with client:
        stored = client[provisioned.store.database]["jobs"]
        stored.update_one({"_id": jobs[0].id}, {"$set": {"colour": "red"}})

    [finding] = [each for each in doctor(provisioned)[1]["MongoDB"] if "colour" in each["text"]]

    assert finding["level"] == "warn"
    assert finding["text"].endswith("does not know: colour (1)")


def test_topics_that_are_missing_or_too_narrow_are_named(broker_config: BrokerConfig) -> None:
    ensure_topics(broker_config, topics_for({"doctored"}))
    wider = replace(broker_config, partitions=8, replication=3)
    readers = {dispatch_topic("doctored"): 5}

    findings = list(kafka.examine(wider, {"doctored", "never-made"}, lambda: readers))

    failing, warning = texts(findings, Level.FAIL), texts(findings, Level.WARN)
    assert "topics are missing: jobs.dispatch.never-made" in failing
    assert "brokers: 1, KAFKA_REPLICATION is 3" in failing
    assert "topics with one replica: " in warning
    assert "jobs.dispatch.doctored has 4 partitions, KAFKA_PARTITIONS is 8" in warning
    assert "jobs.dispatch.doctored has 4 partitions and 5 readers" in warning
    assert "jobs.dispatch.doctored: replicas: 1, KAFKA_REPLICATION is 3" in warning


def test_work_that_nobody_does_is_a_failure(provisioned: Config, repo: Repository) -> None:
    long_ago = repo.clock.now() - timedelta(hours=1)
    repo.nodes.report(Node("killed", "scheduler", long_ago), now=long_ago)

    status, parts = doctor(provisioned)

    assert status == 1
    assert {(finding["level"], finding["text"]) for finding in parts["Roles"]} == {
        ("fail", "no scheduler lives: nothing is dispatched, no template fires"),
        ("fail", "no reaper lives: nothing that was lost is found again"),
        ("warn", "no executor lives: no job runs"),
        ("ok", "no dead letters"),
    }


def test_roles_of_another_version_are_a_warning(
    provisioned: Config, repo: Repository, mongo_server: Mongod
) -> None:
    now = alive_for_long(repo)
    for name in ("earlier", "later"):
        repo.nodes.report(Node(name, "reaper", now), now=now)
    client: MongoClient[dict[str, Any]] = MongoClient(mongo_server.location)
    with client:
        nodes = client[provisioned.store.database]["nodes"]
        nodes.update_one({"_id": "earlier"}, {"$unset": {"version": ""}})
        nodes.update_one({"_id": "later"}, {"$set": {"version": "7.0.0"}})

    found = [finding["text"] for finding in doctor(provisioned)[1]["Roles"]]

    assert any(text.startswith("versions of Chronos: 7.0.0, unknown; this is") for text in found)


def test_an_executor_of_handlers_and_deliveries_is_one_process(
    provisioned: Config, repo: Repository
) -> None:
    now = repo.clock.now()
    for name in ("one", "one-delivery", "other-delivery"):
        repo.nodes.report(Node(name, "executor", now, (name,)), now=now)

    found = [finding["text"] for finding in doctor(provisioned)[1]["Roles"]]

    assert "live: 2 × executor" in found


def test_processes_that_nobody_can_count_are_said(
    provisioned: Config, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles, "_COUNTED", 3)
    now = repo.clock.now()
    for number in range(4):
        repo.nodes.report(Node(f"r{number}", "reaper", now), now=now)

    found = [finding["text"] for finding in doctor(provisioned)[1]["Roles"]]

    assert "live: 3 × reaper" in found
    assert "3 processes or more report: no more than these are looked at" in found


def test_what_was_written_by_hand_reaches_the_terminal_spelled_out(
    provisioned: Config, repo: Repository, mongo_server: Mongod
) -> None:
    all_live(repo)
    now, output = repo.clock.now(), StringIO()
    repo.nodes.report(Node("evil\x1b]0;owned\x07", "scheduler", now, term=8), now=now)
    for number in range(12):
        role = f"{number:02} \x1b[2J\r\n\u202e" + "x" * 10_000
        repo.nodes.report(Node(f"n{number}", role, now), now=now)

    with override_settings(CHRONOS=provisioned):
        call_command("doctor", stdout=output)

    shown = output.getvalue()
    assert "evil\\x1b]0;owned\\x07 leads, term 8" in shown
    assert "1 × 00 \\x1b[2J\\r\\n\\u202exx" in shown
    assert "and 5 more" in shown
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert max(map(len, shown.splitlines())) < 5_000


def test_a_redis_that_may_drop_the_leaders_key_is_a_warning(
    provisioned: Config, private_redis: Callable[[], Redis]
) -> None:
    redis = private_redis()
    config = replace(provisioned, election=ElectionConfig("redis", (), redis_url=redis.location))
    assert levels(doctor(config)[1]["Redis"]) == {"ok"}

    with Client(port=redis.port) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")

    [*_, policy] = doctor(config)[1]["Redis"]
    assert policy["level"] == "warn"
    assert policy["remedy"] == "Set maxmemory-policy to noeviction."


class Alone(Mongod):
    """A mongod that is in no replica set."""

    def command(self) -> list[str]:
        return [part for part in super().command() if not part.startswith("--replSet")]

    def answers(self) -> bool:
        return accepts(self.port)


def test_a_mongodb_without_a_replica_set_fails(provisioned: Config, tmp_path: Path) -> None:
    mongod = Alone(tmp_path / "alone", binary=settings.ENV["MONGOD_BIN"], cache_gb=0.25)
    mongod.start()
    try:
        mongod.wait_ready()
        store = StoreConfig(f"mongodb://{mongod.address}/", "chronos")

        status, parts = doctor(replace(provisioned, store=store))
    finally:
        mongod.kill()

    assert status == 1
    found = [finding["text"] for finding in parts["MongoDB"] if finding["level"] == "fail"]
    assert any("is no replica set" in text for text in found)
    assert any("indexes are missing" in text for text in found)


class Joining(Mongod):
    """A mongod that waits to be taken into the replica set of another."""

    def answers(self) -> bool:
        return accepts(self.port)


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[tuple[Mongod, Mongod]]:
    """A replica set of one, and who may join it."""
    first, second = (
        kind(tmp_path / kind.__name__, binary=settings.ENV["MONGOD_BIN"], cache_gb=0.25)
        for kind in (Mongod, Joining)
    )
    for mongod in (first, second):
        mongod.start()
    try:
        for mongod in (first, second):
            mongod.wait_ready()
        yield first, second
    finally:
        for mongod in (first, second):
            mongod.kill()


def test_a_set_that_bears_no_loss_is_a_warning_also_where_others_copy_it(
    joined: tuple[Mongod, Mongod],
) -> None:
    first, second = joined
    repository = Repository.connect(StoreConfig(first.location, "chronos"))
    client: MongoClient[dict[str, Any]] = MongoClient(first.location)
    with client, closing(repository):
        copying = {"_id": 1, "host": second.address, "priority": 0, "hidden": True}
        for votes in (0, 1):
            config = client.admin.command("replSetGetConfig")["config"]
            config["members"][1:] = [copying | {"votes": votes}]
            config["version"] += 1
            client.admin.command("replSetReconfig", config)
            wait_for(
                lambda: all(each.is_healthy for each in repository.facts.replica_set().members)
            )

            found = list(mongodb.examine(repository))

            voters = votes + 1
            [bearing] = [each for each in found if each.text.startswith("replica set ")]
            assert f"{voters} of {voters} voters healthy, a write needs {voters}" in bearing.text
            assert bearing.level is Level.WARN
            assert "three members that vote" in (bearing.remedy or "")


def test_a_member_is_known_by_its_name(repo: Repository) -> None:
    found = repo.facts.replica_set()

    [member] = found.members
    assert (member.state, member.is_healthy, member.lag) == ("PRIMARY", True, None)
    assert member.is_voter
    assert (found.majority, found.is_majority_journaled) == (1, True)
    assert abs(repo.facts.clock_offset(member.name)) < timedelta(minutes=1)


def test_the_command_ends_with_status_1_and_without_a_traceback(
    start_role: Callable[..., RoleProcess],
) -> None:
    sick = start_role("doctor", ETCD_ENDPOINTS=AWAY)

    assert sick.wait() == 1
    assert f"{AWAY} does not answer" in sick.output
    assert "else check ETCD_ENDPOINTS." in sick.output
    assert "Traceback" not in sick.output


def test_whoever_reads_may_stop_before_the_end(role_env: dict[str, str]) -> None:
    command = [sys.executable, str(MANAGE), "doctor"]
    with subprocess.Popen(
        command, env=role_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.close()
        assert child.stderr is not None
        complaints = child.stderr.read()

    assert "BrokenPipeError" not in complaints
    assert "Traceback" not in complaints
