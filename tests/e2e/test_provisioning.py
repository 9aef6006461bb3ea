"""Indexes and topics are made by `manage.py migrate` and by nobody else."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient
from django.conf import settings
from pymongo import IndexModel, MongoClient
from pymongo.collection import Collection

from chronos_site.config import BrokerConfig
from devstack.kafka import Kafka
from devstack.mongo import Mongod
from devstack.process import free_port
from jobs.broker.outbox import Outbox, Receipt
from jobs.broker.publisher import Publisher
from jobs.broker.subscription import Subscription
from jobs.errors import BrokerUnavailable
from jobs.lifecycle import Job, Status
from jobs.messages import Message, dispatch_topic
from jobs.repository import Repository, indexes
from jobs.repository.nodes import Node
from tests.builders import a_job
from tests.processes import RoleProcess
from tests.waiting import ANSWER_SECONDS, wait_for

Start = Callable[..., RoleProcess]

ABSENT = dispatch_topic("never-made")


class GenerousKafka(Kafka):
    """A Kafka that makes each topic that somebody asks for, as Kafka does by default."""

    def properties(self) -> str:
        given = "auto.create.topics.enable="
        return super().properties().replace(f"{given}false", f"{given}true")

    def topics(self) -> set[str]:
        admin = AdminClient({"bootstrap.servers": self.address})
        # Kafka's own begin so.
        return {
            name
            for name in admin.list_topics(timeout=ANSWER_SECONDS).topics
            if not name.startswith("__")
        }


@pytest.fixture(scope="module")
def generous(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GenerousKafka]:
    directory = tmp_path_factory.mktemp("generous")
    programs = settings.ENV
    kafka = GenerousKafka(directory, home=programs["KAFKA_HOME"], java_home=programs["JAVA_HOME"])
    kafka.start()
    kafka.wait_ready()
    yield kafka
    kafka.kill()
    shutil.rmtree(directory)


def test_roles_without_indexes_say_which_command_makes_them(
    start_role: Start, mongo_server: Mongod
) -> None:
    database = f"test_{uuid4().hex}"
    commands = ("runscheduler", "runfanout", "runexecutor", "runreaper", "runapi")
    roles = [start_role(name, MONGO_DB=database, DISPATCH="fanout") for name in commands]

    for role in roles:
        assert role.wait() == 1, role.output
        assert "MongoDB lacks the indexes jobs." in role.output
        assert "Run: python manage.py migrate" in role.output

    client: MongoClient[dict[str, Any]] = MongoClient(mongo_server.location)
    with client:
        assert database not in client.list_database_names()


def test_roles_without_topics_say_which_command_makes_them_and_make_none(
    start_role: Start, repo: Repository, generous: GenerousKafka
) -> None:
    commands = ("runscheduler", "runfanout", "runexecutor")
    roles = [
        start_role(name, KAFKA_BROKERS=generous.address, DISPATCH="fanout") for name in commands
    ]

    for role in roles:
        assert role.wait() == 1, role.output
        assert "Kafka lacks the topics jobs.dlq" in role.output
        assert "Run: python manage.py migrate" in role.output

    assert generous.topics() == set()


def test_migrate_without_kafka_fails_where_topics_are_required(
    start_role: Start, repo: Repository
) -> None:
    nobody = f"127.0.0.1:{free_port()}"

    for arguments, status in (((), 0), (("--require-topics",), 1)):
        role = start_role("migrate", *arguments, KAFKA_BROKERS=nobody)
        assert role.wait() == status, role.output
        assert "The topics were not created." in role.output
        assert "Then run migrate again." in role.output


def test_roles_of_the_version_before_work_on_and_start_until_their_indexes_are_dropped(
    start: Start,
    repo: Repository,
    count_by_status: Callable[[list[Job]], Counter[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = start("runscheduler", "--name", "living")
    executor = start("runexecutor", "--type", "noop")
    for role in (scheduler, executor):
        role.wait_ready()
    # What the version after this one would migrate with.
    ours = {each.document["name"]: each.document for each in indexes.JOBS}[indexes.DISPATCH]
    theirs = IndexModel(
        [*ours["key"].items(), ("_id", 1)],
        name="dispatch_by_id",
        partialFilterExpression=ours["partialFilterExpression"],
    )
    others = [each for each in indexes.JOBS if each.document["name"] != indexes.DISPATCH]
    newer = {**indexes.COLLECTIONS, "jobs": [theirs, *others]}
    with monkeypatch.context() as version:
        version.setattr(indexes, "COLLECTIONS", newer)
        version.setattr(indexes, "OBSOLETE", {"jobs": (indexes.DISPATCH,)})

        repo.ensure_indexes()

        repo.require_indexes()
        jobs = [a_job(scheduled_at=repo.clock.now()) for _ in range(5)]
        repo.jobs.insert(jobs)
        wait_for(
            lambda: count_by_status(jobs) == {Status.COMPLETED: 5}, show=lambda: scheduler.output
        )
        start("runscheduler", "--name", "newcomer").wait_ready()

        assert repo.drop_obsolete_indexes() == ["jobs.dispatch"]
    late = start("runscheduler", "--name", "late")
    assert late.wait() == 1
    assert "MongoDB lacks the indexes jobs.dispatch. Run" in late.output


def test_migrate_drops_obsolete_indexes_only_when_it_is_told_to(
    start_role: Start, repo: Repository, documents: Collection[dict[str, Any]]
) -> None:
    documents.create_index("scheduledAt", name="due")

    def migrate(*arguments: str) -> tuple[int, str]:
        role = start_role("migrate", *arguments)
        return role.wait(), role.output

    assert migrate()[0] == 0
    soon = repo.clock.now() + timedelta(hours=1)
    repo.nodes.report(Node("old", "scheduler", soon), now=soon)
    nodes = documents.database["nodes"]
    nodes.update_one({"_id": "old"}, {"$set": {"version": "0.0.9"}})
    status, told = migrate("--drop-obsolete")
    assert status == 1
    assert "Roles of other versions live and may need them: 0.0.9. No index was dropped" in told
    assert "due" in documents.index_information()

    nodes.delete_one({"_id": "old"})
    status, told = migrate("--drop-obsolete")
    assert status == 0
    assert "Obsolete indexes dropped: jobs.due." in told
    assert "due" not in documents.index_information()


def test_two_that_migrate_at_once_end_without_a_traceback(
    start_role: Start, mongo_server: Mongod
) -> None:
    database = f"test_{uuid4().hex}"
    both = [start_role("migrate", MONGO_DB=database) for _ in range(2)]

    for role in both:
        if role.wait():
            assert "Another migrate may be under way; run it again" in role.output
        assert "Traceback" not in role.output

    again = start_role("migrate", MONGO_DB=database)
    assert again.wait() == 0, again.output
    drop(mongo_server, database)


def test_migrate_says_in_a_sentence_what_another_made_meanwhile(
    start_role: Start, mongo_server: Mongod
) -> None:
    database = f"test_{uuid4().hex}"
    client: MongoClient[dict[str, Any]] = MongoClient(mongo_server.location)
    with client:
        client[database].create_collection("django_content_type")

    role = start_role("migrate", MONGO_DB=database)

    assert role.wait() == 1
    assert "Another migrate may be under way; run it again" in role.output
    assert "Traceback" not in role.output
    drop(mongo_server, database)


def drop(mongo_server: Mongod, database: str) -> None:
    client: MongoClient[dict[str, Any]] = MongoClient(mongo_server.location)
    with client:
        client.drop_database(database)


def test_a_topic_that_is_missing_is_made_by_none_of_our_clients(
    generous: GenerousKafka,
) -> None:
    config = BrokerConfig((generous.address,))
    before = generous.topics()
    receipts: list[Receipt] = []
    publisher = Publisher(config, "one")
    outbox = Outbox(config, "two", timeout=timedelta(seconds=12))
    subscription = Subscription(config, "never-made", "three")

    assert publisher.publish([Message(ABSENT, b"{}")]) == [0]
    with pytest.raises(BrokerUnavailable, match="migrate"):
        publisher.partitions(ABSENT)
    outbox.send(ABSENT, b"{}", key=None, headers={}, report=receipts.append)
    wait_for(lambda: receipts)
    assert subscription.poll(1) is None

    assert receipts[0].problem == "there is no such topic"
    assert generous.topics() == before
    for client in (publisher, outbox, subscription):
        client.close()
