"""A copy of a secondary's files, made amid the work, is enough to go on from.

The steps are those of docs/operations.md (Backup and restore), in the same order.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from pymongo import MongoClient

from chronos_site.config import StoreConfig
from devstack.mongo import REPLICA_SET, Mongod
from jobs.lifecycle import Job, Outcome, Status
from jobs.repository import Repository
from tests.processes import RoleProcess
from tests.records import read_runs
from tests.waiting import wait_for

Start = Callable[..., RoleProcess]
Insert = Callable[..., list[Job]]

PATIENCE = timedelta(seconds=180)
DATABASE = "backed_up"
LEASE = {"CLAIM_TIMEOUT": "20s"}
"""No attempt is to be lost but by the crash, however slow the machine."""


class Member(Mongod):
    """A mongod whose replica set is for the test to form."""

    def answers(self) -> bool:
        with _directly(self) as client:
            return bool(client.admin.command("ping")["ok"])

    @property
    def hello(self) -> Mapping[str, Any]:
        with _directly(self) as client:
            return dict(client.admin.command("hello"))

    def run(self, command: str, value: Any = 1, **options: Any) -> Mapping[str, Any]:
        """An administrator's command, to this member whatever its state."""
        with _directly(self) as client:
            return dict(client.admin.command(command, value, **options))


@contextmanager
def _directly(member: Mongod) -> Iterator[MongoClient[dict[str, Any]]]:
    client: MongoClient[dict[str, Any]] = MongoClient(
        "127.0.0.1", member.port, directConnection=True
    )
    with client:
        yield client


@pytest.fixture
def start_member(tmp_path: Path) -> Iterator[Callable[[str], Member]]:
    """Starts a mongod on the files in a folder of this name, or without any."""
    started: list[Member] = []

    def start(name: str) -> Member:
        member = Member(tmp_path / name, binary=settings.ENV["MONGOD_BIN"], cache_gb=0.5)
        started.append(member)
        member.start()
        member.wait_ready()
        return member

    yield start
    for member in started:
        member.kill()
        shutil.rmtree(member.directory)


@pytest.fixture
def mongo_server(start_member: Callable[[str], Member]) -> Member:
    """The primary of a set with a hidden secondary: see `secondary`."""
    primary = start_member("primary")
    members = [{"_id": 0, "host": primary.address}]
    primary.run("replSetInitiate", {"_id": REPLICA_SET, "members": members})
    wait_for(lambda: primary.hello["isWritablePrimary"])
    return primary


@pytest.fixture
def store_config(mongo_server: Member) -> StoreConfig:
    """Not dropped in the end, when its server is gone."""
    return StoreConfig(mongo_server.location, DATABASE)


@pytest.fixture
def secondary(mongo_server: Member, start_member: Callable[[str], Member]) -> Member:
    """A member that never becomes primary, as one keeps it for backups."""
    secondary = start_member("secondary")
    config = mongo_server.run("replSetGetConfig")["config"]
    hidden = {"host": secondary.address, "priority": 0, "votes": 0, "hidden": True}
    config["members"].append({"_id": 1, **hidden})
    mongo_server.run("replSetReconfig", config | {"version": config["version"] + 1})
    wait_for(lambda: secondary.hello["secondary"])
    return secondary


def test_all_goes_on_from_a_copy_of_a_secondarys_files(
    mongo_server: Member,
    secondary: Member,
    start_member: Callable[[str], Member],
    start: Start,
    store_config: StoreConfig,
    repo: Repository,
    insert: Insert,
    record_file: Path,
    tmp_path: Path,
) -> None:
    roles = [start("runscheduler"), start("runreaper", **LEASE)]
    roles.append(start("runexecutor", "--type", "test-record", "--concurrency", "4", **LEASE))
    for role in roles:
        role.wait_ready()
    now = repo.clock.now()
    later = now + timedelta(minutes=10)
    file = tmp_path / "until"
    templates = insert(cron="* * * * *", scheduled_at=now)
    # Nobody serves their type, so that they stay queued.
    queued = insert(5, job_type="noop")
    [held] = insert(1, until=str(file), priority=9)
    jobs = [*queued, held, *insert(400, sleepMs=50)]
    due = list(jobs)
    jobs += insert(2, scheduled_at=later)
    wait_for(lambda: _statuses(mongo_server, jobs)[Status.COMPLETED] >= 50, deadline=PATIENCE)
    wait_for(lambda: _statuses(mongo_server, queued) == {Status.QUEUED: 5})
    wait_for(lambda: _statuses(mongo_server, [held]) == {Status.RUNNING: 1})
    # Fires between the copy and the crash.
    templates += insert(cron="* * * * *", scheduled_at=repo.clock.now() + timedelta(seconds=6))
    acknowledged = _optime(mongo_server, "PRIMARY")
    wait_for(lambda: _optime(mongo_server, "SECONDARY") >= acknowledged)

    # 1. The copy, while everything goes on.
    secondary.run("fsync", lock=True)
    shutil.copytree(secondary.directory / "data", tmp_path / "backup")
    secondary.run("fsyncUnlock")

    # 2. Work that the copy does not have, and the loss of all members.
    in_the_gap = insert(5)
    wait_for(
        lambda: _statuses(mongo_server, in_the_gap) == {Status.COMPLETED: 5},
        deadline=PATIENCE,
        show=lambda: _statuses(mongo_server, in_the_gap),
    )
    wait_for(lambda: _fired(mongo_server) == {template.id for template in templates})
    runs_before = _runs(mongo_server)
    repo.close()
    mongo_server.kill()
    secondary.kill()
    for role in roles:
        role.kill()

    # 3. A new server on the copy, which is told that it is alone.
    (tmp_path / "restored").mkdir()
    (tmp_path / "backup").rename(tmp_path / "restored/data")
    restored = start_member("restored")
    config = wait_for(lambda: restored.run("replSetGetConfig")["config"])
    config["members"] = [{"_id": 0, "host": restored.address}]
    restored.run("replSetReconfig", config, force=True)
    wait_for(lambda: restored.hello["isWritablePrimary"])

    # What is in the copy.
    store = Repository.connect(replace(store_config, uri=restored.location))
    before = {job.id: store.jobs.get(job.id) for job in jobs}
    found = Counter(job.status for job in before.values())
    assert found.keys() >= {Status.PENDING, Status.QUEUED, Status.RUNNING, Status.COMPLETED}
    assert all(store.jobs.find(job.id) is None for job in in_the_gap)

    # 4. The roles, beginning with `migrate`.
    file.touch()
    restored_at = store.clock.now()
    uri = {"MONGO_URI": restored.location, **LEASE}
    assert start("migrate", **uri).wait(PATIENCE) == 0
    executor = start("runexecutor", **uri)
    roles = [start("runreaper", **uri), start("runscheduler", **uri), executor]
    for role in roles:
        role.wait_ready()
    wait_for(
        lambda: _statuses(restored, due) == {Status.COMPLETED: len(due)},
        deadline=PATIENCE,
        show=lambda: _statuses(restored, due),
    )

    # Each ended once, and only what ran when the copy was made has lost an attempt.
    recorded = read_runs(record_file)
    for job in (store.jobs.get(job_id) for job_id in before):
        was = before[job.id]
        if was.scheduled_at == later:
            assert job.status is Status.PENDING
            continue
        ends = [attempt.outcome for attempt in job.history]
        lost = [Outcome.LOST] if was.status is Status.RUNNING else []
        assert ends == [*lost, Outcome.COMPLETED]
        if job.job_type == "test-record":
            again = [run for run in recorded[str(job.id)] if run.started_at > restored_at]
            assert len(again) == (was.status is not Status.COMPLETED)

    # A key is used once, and who submits again what the copy lacks runs it again.
    assert store.jobs.insert([*jobs, *in_the_gap]) == [False] * len(jobs) + [True] * 5
    # An occurrence that fired between the copy and the crash has the same id when it fires again.
    wait_for(lambda: _fired(restored) == {template.id for template in templates})
    runs = _runs(restored)
    in_both = runs.keys() & runs_before.keys()
    assert {template for template, _ in in_both} == {template.id for template in templates}
    assert all(runs[occurrence] == runs_before[occurrence] for occurrence in in_both)
    store.close()


def _optime(primary: Member, state: str) -> Any:
    """Up to where the member in this state has all writes."""
    [member] = [
        each for each in primary.run("replSetGetStatus")["members"] if each["stateStr"] == state
    ]
    return member["optime"]["ts"]


def _statuses(member: Member, jobs: list[Job]) -> Counter[str]:
    """How many of some jobs are where."""
    which = {"_id": {"$in": [job.id for job in jobs]}}
    with _directly(member) as client:
        return Counter(job["status"] for job in client[DATABASE]["jobs"].find(which))


def _runs(member: Member) -> dict[tuple[Any, Any], Any]:
    """Ids of the runs that templates have spawned, by template and occurrence. Each only once."""
    with _directly(member) as client:
        runs = list(client[DATABASE]["jobs"].find({"templateId": {"$exists": True}}))
    found = {(run["templateId"], run["occurrenceAt"]): run["_id"] for run in runs}
    assert len(found) == len(runs)
    return found


def _fired(member: Member) -> set[Any]:
    """Ids of the templates that have spawned a run."""
    return {template for template, _ in _runs(member)}
