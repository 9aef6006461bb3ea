"""Fan-out: the leader announces minutes, workers dispatch what they own, and nobody is missed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import pytest
from bson.datetime_ms import DatetimeMS
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pymongo import MongoClient
from pymongo.collection import Collection

from chronos_site.config import BrokerConfig, StoreConfig
from devstack.kafka import Kafka
from devstack.mongo import Mongod
from executor.executor import Executor
from jobs.broker.publisher import Publisher
from jobs.broker.topics import ensure_topics, topics_for
from jobs.lifecycle import SHARDS, Job, Status, shard_of
from jobs.messages import TRIGGERS_TOPIC, Message, shards_of, trigger_messages
from jobs.registry import Context
from jobs.repository import Repository
from jobs.repository.nodes import Node
from scheduler.credit import FLOOR
from scheduler.dispatcher import Dispatcher
from scheduler.metrics import TRIGGERS_RECEIVED
from scheduler.scheduler import Scheduler
from scheduler.triggering import Triggering
from tests.builders import NOW
from tests.roles.conftest import LONG_TICK, RunningWorker
from tests.waiting import assert_takes_at_most, wait_for

StartExecutor = Callable[..., Executor]
StartScheduler = Callable[..., Scheduler]
Insert = Callable[..., list[Job]]
WaitUntilAll = Callable[..., list[Job]]
Documents = Collection[dict[str, Any]]
CountByStatus = Callable[[list[Job]], Counter[str]]

AT_ONCE: Final = LONG_TICK / 4
"""Soon, even where the machine is busy, and long before the tick."""
MINUTE: Final = timedelta(minutes=1)
ALL: Final = frozenset(range(SHARDS))


StartWorker = Callable[..., RunningWorker]


@pytest.fixture
def buckets(store_config: StoreConfig) -> Iterator[Documents]:
    """The collection of announced minutes."""
    client: MongoClient[dict[str, Any]] = MongoClient(store_config.uri, tz_aware=True)
    with client:
        yield client[store_config.database]["schedule_buckets"]


class Sent(Publisher):
    """Takes triggers for a topic of four partitions, or fails to; sends nothing."""

    def __init__(self, *, fails: bool = False) -> None:
        self.messages: list[Message] = []
        self._fails = fails

    def publish(self, messages: Any) -> list[int]:
        self.messages += messages
        return list(range(len(messages))) if self._fails else []

    def partitions(self, topic: str) -> int:
        assert topic == TRIGGERS_TOPIC
        return 4


@pytest.fixture
def make_triggering(repo: Repository, job_type: str) -> Callable[..., Triggering]:
    def make(publisher: Publisher, *, owner: str = "one", term: int = 1) -> Triggering:
        return Triggering(repo, publisher, owner=owner, term=term, job_types=lambda: {job_type})

    return make


MakeTriggering = Callable[..., Triggering]


def test_the_leader_fires_and_announces_and_leaves_the_jobs_to_the_workers(
    start_scheduler: StartScheduler,
    repo: Repository,
    insert: Insert,
    job_type: str,
    documents: Documents,
    buckets: Documents,
) -> None:
    scheduler = start_scheduler(fans_out=True, tick=LONG_TICK)
    wait_for(lambda: scheduler.term)
    due = insert(3, scheduled_at=repo.clock.now() - MINUTE)
    [template] = insert(1, cron="* * * * *", scheduled_at=repo.clock.now())

    # A template that is inserted is fired at once, whatever the leader waited for.
    wait_for(lambda: documents.find_one({"templateId": template.id}), deadline=AT_ONCE)

    assert {repo.jobs.get(job.id).status for job in due} == {Status.PENDING}
    run = documents.find_one({"templateId": template.id})
    assert run is not None
    assert run["status"] == Status.PENDING


def test_a_due_minute_is_announced_by_the_leader_that_finds_it(
    start_scheduler: StartScheduler, repo: Repository, insert: Insert, buckets: Documents
) -> None:
    insert(3, scheduled_at=repo.clock.now() - MINUTE)

    scheduler = start_scheduler(fans_out=True, tick=LONG_TICK)

    bucket = wait_for(lambda: buckets.find_one({"triggeredAt": {"$exists": True}}))
    assert bucket is not None
    assert bucket["_id"].second == bucket["_id"].microsecond == 0
    assert timedelta(0) <= bucket["triggeredAt"] - bucket["_id"] < 2 * MINUTE
    assert bucket["triggeredBy"] == "scheduler-0"
    assert scheduler.term is not None
    assert bucket["term"] == scheduler.term.number
    assert (bucket["due"], bucket["partitions"]) == (3, 4)


def test_a_minute_without_due_jobs_is_not_announced(
    make_triggering: MakeTriggering, insert: Insert, buckets: Documents
) -> None:
    sent = Sent()
    triggering = make_triggering(sent)
    insert(1, scheduled_at=NOW + 5 * MINUTE)
    insert(1, scheduled_at=NOW, status=Status.COMPLETED)

    assert triggering.step(NOW) is False

    assert sent.messages == []
    assert buckets.count_documents({}) == 0
    assert triggering.next_due(NOW) == NOW + MINUTE


def test_an_announcement_makes_up_for_minutes_that_nobody_announced(
    make_triggering: MakeTriggering, insert: Insert, buckets: Documents
) -> None:
    sent = Sent()
    triggering = make_triggering(sent)
    insert(1, scheduled_at=NOW)
    triggering.step(NOW)
    assert len(sent.messages) == 4
    insert(2, scheduled_at=NOW + 2 * MINUTE)

    triggering.step(NOW + MINUTE + timedelta(seconds=59))
    assert len(sent.messages) == 4
    triggering.step(NOW + 5 * MINUTE + timedelta(seconds=30))

    assert {each["_id"]: each["due"] for each in buckets.find()} == {NOW: 1, NOW + 5 * MINUTE: 2}
    assert sent.messages[4:] == trigger_messages(NOW + 5 * MINUTE, 4)


def test_of_leaders_at_once_one_announces_a_minute(
    make_triggering: MakeTriggering, insert: Insert, buckets: Documents
) -> None:
    sent = Sent()
    insert(10, scheduled_at=NOW)
    leaders = [make_triggering(sent, owner=f"leader-{number}") for number in range(8)]
    start = threading.Barrier(len(leaders))

    def lead(leader: Triggering) -> None:
        start.wait()
        leader.step(NOW)

    threads = [threading.Thread(target=lead, args=(leader,)) for leader in leaders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # And one that leads later in the same minute finds it announced.
    make_triggering(sent, owner="later", term=2).step(NOW + MINUTE / 2)

    assert sent.messages == trigger_messages(NOW, 4)
    assert buckets.count_documents({}) == 1


def test_a_leader_that_dies_between_bucket_and_triggers_loses_no_minute(
    make_triggering: MakeTriggering, insert: Insert, buckets: Documents
) -> None:
    class Dies(Sent):
        def publish(self, messages: Any) -> list[int]:
            raise SystemExit

    insert(1, scheduled_at=NOW)
    with pytest.raises(SystemExit):
        make_triggering(Dies()).step(NOW)
    assert buckets.count_documents({"triggeredAt": {"$exists": False}}) == 1
    sent = Sent()

    make_triggering(sent, owner="two", term=2).step(NOW + timedelta(seconds=10))

    assert sent.messages == trigger_messages(NOW, 4)
    [bucket] = buckets.find()
    assert (bucket["openedBy"], bucket["triggeredBy"], bucket["term"]) == ("two", "two", 2)


def test_a_bucket_that_was_edited_by_hand_keeps_no_minute_from_being_announced(
    make_triggering: MakeTriggering, buckets: Documents, insert: Insert
) -> None:
    insert()
    for odd in (DatetimeMS(10**17), DatetimeMS(-(10**17)), "text", None, 5):
        buckets.insert_one({"_id": odd, "openedBy": "one", "term": 0})
    sent = Sent()

    make_triggering(sent).step(NOW)

    assert len(sent.messages) == 4


def test_triggers_that_kafka_does_not_take_are_sent_again_with_the_next_minute(
    make_triggering: MakeTriggering,
    repo: Repository,
    broker_config: BrokerConfig,
    insert: Insert,
    buckets: Documents,
    job_type: str,
) -> None:
    insert(1, scheduled_at=NOW)
    triggering = make_triggering(Sent(fails=True))
    triggering.step(NOW)
    away = Publisher(replace(broker_config, brokers=("127.0.0.1:1",)), "test")
    make_triggering(away).step(NOW)
    away.close()
    assert buckets.count_documents({"triggeredAt": {"$exists": False}}) == 1
    sent = Sent()

    make_triggering(sent).step(NOW + MINUTE)

    assert sent.messages == trigger_messages(NOW, 4)
    assert buckets.count_documents({"triggeredAt": {"$exists": False}}) == 0


def test_a_dispatcher_touches_only_the_shards_that_it_is_given(
    repo: Repository, publisher: Publisher, insert: Insert, job_type: str
) -> None:
    dispatcher = Dispatcher(repo, publisher, job_types=[job_type], batch=1000)
    jobs = insert(90)
    mine = frozenset(shards_of(1, 3))

    sent = dispatcher.step(repo.clock.now(), shards=mine)

    queued = {job.id for job in jobs if repo.jobs.get(job.id).status is Status.QUEUED}
    owned = {job.id for job in jobs if shard_of(job.id) in mine}
    assert queued <= owned
    assert sent.count == len(queued) == min(len(owned), -(-FLOOR * len(mine) // SHARDS))


def test_within_a_workers_shards_the_highest_priority_goes_first(
    repo: Repository, publisher: Publisher, insert: Insert, job_type: str
) -> None:
    executor = Node("e", "executor", NOW, (job_type,), 1000)
    dispatcher = Dispatcher(repo, publisher, job_types=[job_type], batch=5)
    jobs = [job for priority in range(100) for job in insert(1, priority=priority)]
    mine = frozenset(shards_of(0, 2))
    order = [job.id for job in reversed(jobs) if shard_of(job.id) in mine]

    for done in range(5, len(order), 5):
        repo.nodes.report(executor, now=repo.clock.now())
        dispatcher.step(repo.clock.now(), shards=mine)
        queued = {job.id for job in jobs if repo.jobs.get(job.id).status is Status.QUEUED}
        assert queued == set(order[:done])


def test_workers_without_a_leader_share_all_shards(
    start_worker: StartWorker,
    repo: Repository,
    insert: Insert,
    count_by_status: CountByStatus,
) -> None:
    workers = [start_worker() for _ in range(3)]

    def owned() -> list[frozenset[int]]:
        return [each.shards for each in workers]

    # Every shard once, and some for each.
    wait_for(
        lambda: all(owned()) and sorted(shard for own in owned() for shard in own) == sorted(ALL),
        show=owned,
    )

    jobs = insert(60)

    wait_for(lambda: count_by_status(jobs) == {Status.QUEUED: 60}, deadline=AT_ONCE)


def test_a_late_insert_and_a_later_due_time_need_no_minute_and_no_tick(
    start_worker: StartWorker, repo: Repository, insert: Insert
) -> None:
    worker = start_worker()
    wait_for(lambda: worker.shards == ALL)
    # The first one shows that the stream is open.
    [first] = insert(1)
    wait_for(lambda: repo.jobs.get(first.id).status is Status.QUEUED)

    for delay in (0, 200, 700):
        due_at = repo.clock.now() + timedelta(milliseconds=delay)
        [job] = insert(1, scheduled_at=due_at)
        wait_for(lambda job=job: repo.jobs.get(job.id).status is Status.QUEUED)  # type: ignore[misc]
        queued_at = repo.jobs.get(job.id).queued_at
        assert queued_at is not None
        assert timedelta(0) <= queued_at - due_at < AT_ONCE


def test_retries_flow_through_the_workers(
    start_worker: StartWorker,
    start_executor: StartExecutor,
    insert: Insert,
    wait_until_all: WaitUntilAll,
) -> None:
    def handler(context: Context) -> None:
        if context.attempt < 3:
            raise RuntimeError(f"attempt {context.attempt}")

    start_executor(handler)
    workers = [start_worker(), start_worker()]
    wait_for(lambda: sum(len(each.shards) for each in workers) == SHARDS)

    jobs = insert(6, retry={"strategy": "linear", "base": 0.2})

    for job in wait_until_all(jobs, Status.COMPLETED, deadline=AT_ONCE):
        assert job.attempts == 2
        for delay, (earlier, later) in zip((0.2, 0.4), pairwise(job.history), strict=True):
            waited = (later.started_at - earlier.finished_at).total_seconds()
            assert delay <= waited < AT_ONCE.total_seconds()


def bring_forward(documents: Documents, job: Job, due_at: datetime) -> None:
    """Make a job due in a way that no change stream shows."""
    documents.update_one({"_id": job.id}, {"$set": {"scheduledAt": due_at}})


def test_a_trigger_is_heeded_at_once(
    start_worker: StartWorker,
    repo: Repository,
    publisher: Publisher,
    insert: Insert,
    documents: Documents,
) -> None:
    worker = start_worker()
    wait_for(lambda: worker.shards == ALL)
    [first] = insert(1)
    wait_for(lambda: repo.jobs.get(first.id).status is Status.QUEUED)
    [job] = insert(1, scheduled_at=repo.clock.now() + timedelta(hours=1))

    bring_forward(documents, job, repo.clock.now())
    triggered_at = repo.clock.now()
    assert publisher.publish(trigger_messages(NOW, 4)) == []

    wait_for(lambda: repo.jobs.get(job.id).status is Status.QUEUED)
    queued_at = repo.jobs.get(job.id).queued_at
    assert queued_at is not None
    assert queued_at - triggered_at < AT_ONCE


def test_a_lost_trigger_costs_no_more_than_a_tick(
    start_worker: StartWorker, repo: Repository, insert: Insert, documents: Documents
) -> None:
    worker = start_worker(tick=timedelta(milliseconds=500))
    wait_for(lambda: worker.shards == ALL)
    [job] = insert(1, scheduled_at=repo.clock.now() + timedelta(hours=1))

    bring_forward(documents, job, repo.clock.now())

    # There is no leader, so no later minute either.
    wait_for(lambda: repo.jobs.get(job.id).status is Status.QUEUED)


def test_junk_among_the_triggers_stops_no_worker(
    start_worker: StartWorker, repo: Repository, publisher: Publisher, insert: Insert
) -> None:
    junk = TRIGGERS_RECEIVED.labels("junk")
    before = junk._value.get()
    worker = start_worker()
    wait_for(lambda: worker.shards == ALL)

    values = [b"", b"\xff", b"{}", b'{"bucket": 1, "shards": "ab"}']
    assert publisher.publish([Message(TRIGGERS_TOPIC, value) for value in values]) == []

    # More, where the group divides its partitions anew meanwhile.
    wait_for(lambda: junk._value.get() >= before + len(values))
    [job] = insert(1)
    wait_for(lambda: repo.jobs.get(job.id).status is Status.QUEUED)


def test_a_worker_that_leaves_is_replaced_long_before_its_session_ends(
    start_worker: StartWorker,
    repo: Repository,
    insert: Insert,
    count_by_status: CountByStatus,
    documents: Documents,
) -> None:
    leaver, heir = (start_worker(session_timeout=2 * AT_ONCE) for _ in range(2))
    wait_for(lambda: leaver.shards and heir.shards and leaver.shards | heir.shards == ALL)
    abandoned = leaver.shards
    later = repo.clock.now() + timedelta(hours=1)
    jobs = [job for job in insert(100, scheduled_at=later) if shard_of(job.id) in abandoned]

    documents.update_many({}, {"$set": {"scheduledAt": repo.clock.now()}})
    leaver.stop()

    # What became due meanwhile is looked at when the shards come, not at the next tick.
    wait_for(lambda: count_by_status(jobs)[Status.PENDING] == 0, deadline=AT_ONCE)
    assert heir.shards == ALL


def test_the_shards_of_a_worker_that_leaves_are_anothers_within_two_seconds(
    start_worker: StartWorker,
) -> None:
    workers = [start_worker()]

    def take() -> timedelta:
        leaver, heir = workers[-1], start_worker()
        workers.append(heir)
        wait_for(lambda: leaver.shards and heir.shards and leaver.shards | heir.shards == ALL)
        left_at = time.monotonic()
        leaver.stop()
        wait_for(lambda: heir.shards == ALL)
        return timedelta(seconds=time.monotonic() - left_at)

    assert_takes_at_most(timedelta(seconds=2), take)


def test_a_worker_cut_off_from_the_store_leaves_its_shards_to_those_that_are_not(
    start_worker: StartWorker, private_mongod: Callable[[], Mongod]
) -> None:
    mongod = private_mongod()
    repository = Repository.connect(StoreConfig(mongod.location, "chronos"))
    repository.ensure_indexes()
    cut_off, fit = start_worker(repository, tick=timedelta(seconds=1)), start_worker()
    wait_for(lambda: cut_off.shards and fit.shards and cut_off.shards | fit.shards == ALL)

    mongod.kill()

    wait_for(lambda: (cut_off.shards, fit.shards) == (frozenset(), ALL))
    cut_off.stop()
    repository.close()


def test_more_partitions_divide_the_shards_anew(
    private_kafka: Callable[[], Kafka], start_worker: StartWorker, broker_config: BrokerConfig
) -> None:
    brokers = (private_kafka().address,)
    ensure_topics(replace(broker_config, brokers=brokers, partitions=1), [TRIGGERS_TOPIC])
    workers = [start_worker(brokers=brokers) for _ in range(2)]
    # One has nothing to do, and stands by.
    wait_for(lambda: {each.worker.shards for each in workers} == {ALL, frozenset()})

    admin = AdminClient({"bootstrap.servers": brokers[0]})
    admin.create_partitions([NewPartitions(TRIGGERS_TOPIC, 2)])[TRIGGERS_TOPIC].result()

    halves = {frozenset(shards_of(0, 2)), frozenset(shards_of(1, 2))}
    wait_for(lambda: {each.worker.shards for each in workers} == halves)


def test_workers_come_back_by_themselves_when_kafka_does(
    private_kafka: Callable[[], Kafka],
    start_worker: StartWorker,
    broker_config: BrokerConfig,
    repo: Repository,
    insert: Insert,
    job_type: str,
) -> None:
    kafka = private_kafka()
    ensure_topics(replace(broker_config, brokers=(kafka.address,)), topics_for([job_type]))
    worker = start_worker(brokers=(kafka.address,), tick=timedelta(milliseconds=500))
    wait_for(lambda: worker.shards == ALL)

    kafka.kill()
    wait_for(lambda: worker.shards == frozenset())
    [job] = insert(1)
    kafka.start()
    kafka.wait_ready()

    wait_for(lambda: repo.jobs.get(job.id).status is Status.QUEUED)
    wait_for(lambda: worker.shards == ALL)
