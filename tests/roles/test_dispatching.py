"""Dispatch: soon, in order of priority, and never more than executors take."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from queue import SimpleQueue

import pytest

from chronos_site.config import BrokerConfig
from executor.executor import Executor
from jobs.broker.publisher import Publisher
from jobs.broker.topics import ensure_topics, topics_for
from jobs.lifecycle import Job, Status
from jobs.registry import Context
from jobs.repository import Repository
from jobs.repository.nodes import Node
from scheduler.credit import FLOOR
from scheduler.dispatcher import Dispatcher
from scheduler.scheduler import Scheduler
from tests.builders import NOW
from tests.roles.conftest import LONG_TICK
from tests.waiting import wait_for

StartExecutor = Callable[..., Executor]
StartScheduler = Callable[..., Scheduler]
Insert = Callable[..., list[Job]]
WaitUntilAll = Callable[..., list[Job]]
MakeDispatcher = Callable[..., Dispatcher]
CountByStatus = Callable[[list[Job]], Counter[str]]

# A thousand jobs and more, one or two at a time.
PATIENCE = timedelta(seconds=90)


@pytest.fixture
def make_dispatcher(repo: Repository, publisher: Publisher, job_type: str) -> MakeDispatcher:
    def make(
        *,
        batch: int = 1000,
        publisher: Publisher = publisher,
        job_types: Sequence[str] = (job_type,),
    ) -> Dispatcher:
        return Dispatcher(repo, publisher, job_types=job_types, batch=batch)

    return make


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """What blocked handlers wait for; set at the latest when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def test_without_executor_exactly_the_floor_is_dispatched(
    make_dispatcher: MakeDispatcher,
    repo: Repository,
    insert: Insert,
    count_by_status: CountByStatus,
) -> None:
    dispatcher = make_dispatcher()
    jobs = insert(FLOOR + 50)

    sent = [dispatcher.step(repo.clock.now()).count for _ in range(3)]

    assert sent == [FLOOR, 0, 0]
    assert count_by_status(jobs) == {Status.QUEUED: FLOOR, Status.PENDING: 50}


def test_what_is_not_yet_due_or_of_no_known_type_stays_pending(
    make_dispatcher: MakeDispatcher, repo: Repository, insert: Insert
) -> None:
    now = repo.clock.now()
    [later] = insert(1, scheduled_at=now + timedelta(hours=1))
    [unknown] = insert(1, job_type="no-such-type")
    [due] = insert(1, scheduled_at=now)

    sent = make_dispatcher().step(now)

    assert (sent.count, sent.is_full, sent.has_more) == (1, False, False)
    assert repo.jobs.get(later.id).status is Status.PENDING
    assert repo.jobs.get(unknown.id).status is Status.PENDING
    assert repo.jobs.get(due.id).status is Status.QUEUED


def test_the_highest_priority_goes_first_and_then_the_longest_due(
    make_dispatcher: MakeDispatcher, repo: Repository, insert: Insert
) -> None:
    [second] = insert(1, priority=5, scheduled_at=NOW - timedelta(hours=1))
    [third] = insert(1, priority=0, scheduled_at=NOW - timedelta(hours=3))
    [fourth] = insert(1, priority=-1, scheduled_at=NOW - timedelta(hours=9))
    [first] = insert(1, priority=5, scheduled_at=NOW - timedelta(hours=2))
    dispatcher = make_dispatcher(batch=1)

    order = []
    for _ in range(4):
        sent = dispatcher.step(repo.clock.now())
        jobs = [repo.jobs.get(job.id) for job in (first, second, third, fourth)]
        order.append({job.id for job in jobs if job.status is Status.QUEUED})
        assert sent.has_more == (len(order) < 4)

    assert order[0] == {first.id}
    assert order[1] == {first.id, second.id}
    assert order[2] == {first.id, second.id, third.id}


def test_two_leaders_at_once_dispatch_each_job_once(
    make_dispatcher: MakeDispatcher,
    repo: Repository,
    publisher: Publisher,
    insert: Insert,
    count_by_status: CountByStatus,
) -> None:
    executor = Node("executor", "executor", NOW, tuple(make_dispatcher().job_types), 5000)
    jobs = insert(2000)
    published: SimpleQueue[int] = SimpleQueue()

    class Counting(Publisher):
        def __init__(self) -> None:
            """Publishes nothing, and counts."""

        def publish(self, messages: object) -> list[int]:
            published.put(len(messages))  # type: ignore[arg-type]
            return []

    def lead() -> None:
        dispatcher = make_dispatcher(batch=50, publisher=Counting())
        while count_by_status(jobs)[Status.PENDING]:
            repo.nodes.report(executor, now=repo.clock.now())
            dispatcher.step(repo.clock.now())

    leaders = [threading.Thread(target=lead) for _ in range(4)]
    for leader in leaders:
        leader.start()
    for leader in leaders:
        leader.join()

    assert sum(published.get() for _ in range(published.qsize())) == 2000
    assert count_by_status(jobs) == {Status.QUEUED: 2000}


def test_jobs_that_kafka_does_not_take_are_pending_again_at_once(
    make_dispatcher: MakeDispatcher,
    broker_config: BrokerConfig,
    repo: Repository,
    insert: Insert,
    job_type: str,
) -> None:
    away = Publisher(replace(broker_config, brokers=("127.0.0.1:1",)), "test")
    dispatcher = make_dispatcher(publisher=away)
    jobs = insert(10)

    sent = dispatcher.step(repo.clock.now())

    assert (sent.count, sent.has_more) == (0, False)
    assert job_type not in dispatcher.open_types
    for job in jobs:
        job = repo.jobs.get(job.id)
        assert job.status is Status.PENDING
        assert job.attempts == 0
        assert job.queued_at is None
        assert job.claim_id is None
    # Until the pause is over nothing is tried.
    assert dispatcher.step(repo.clock.now()).count == 0
    wait_for(lambda: job_type in dispatcher.open_types)
    away.close()


def test_a_type_without_a_topic_does_not_hold_up_the_others(
    make_dispatcher: MakeDispatcher,
    publisher: Publisher,
    repo: Repository,
    insert: Insert,
    job_type: str,
) -> None:
    dispatcher = make_dispatcher(publisher=publisher, job_types=[job_type, "has-no-topic"])
    astray = insert(job_type="has-no-topic")
    dispatcher.step(repo.clock.now())
    assert "has-no-topic" not in dispatcher.open_types

    jobs = insert(3)
    sent = dispatcher.step(repo.clock.now())

    assert sent.count == len(jobs)
    assert repo.jobs.get(astray[0].id).status is Status.PENDING


def test_the_backlog_of_a_slow_executor_waits_where_priority_holds(
    start_scheduler: StartScheduler,
    start_executor: StartExecutor,
    repo: Repository,
    insert: Insert,
    wait_until_all: WaitUntilAll,
    let_go: threading.Event,
    count_by_status: CountByStatus,
) -> None:
    ran: SimpleQueue[str] = SimpleQueue()
    turn = threading.Semaphore(0)

    def handler(context: Context) -> None:
        if not let_go.is_set():
            turn.acquire(timeout=30)
            # Fast handlers have more held ready for them.
            let_go.wait(0.2)
        ran.put(context.job_id)

    start_executor(handler, concurrency=2)
    wait_for(lambda: repo.nodes.live(role="executor", seen_since=NOW))
    backlog = insert(1000)
    start_scheduler()

    # Two run, two are held ready.
    wait_for(lambda: count_by_status(backlog)[Status.RUNNING] == 2)
    wait_for(lambda: count_by_status(backlog)[Status.CLAIMED] == 2)
    [urgent] = insert(1, priority=9)
    for _ in range(16):
        turn.release()
    first = [ran.get(timeout=30) for _ in range(16)]

    # Only what was in flight, and what was dispatched together with it, may come before.
    assert str(urgent.id) in first
    statuses = count_by_status(backlog)
    # Half a second's work, beyond what runs.
    assert statuses[Status.QUEUED] + statuses[Status.CLAIMED] + statuses[Status.RUNNING] <= 7
    assert statuses[Status.PENDING] >= 1000 - 16 - 7

    let_go.set()
    for _ in range(4):
        turn.release()
    wait_until_all([*backlog, urgent], Status.COMPLETED, deadline=PATIENCE)


def test_a_slow_type_does_not_starve_a_fast_one(
    start_scheduler: StartScheduler,
    start_executor: StartExecutor,
    broker_config: BrokerConfig,
    repo: Repository,
    job_type: str,
    insert: Insert,
    wait_until_all: WaitUntilAll,
    let_go: threading.Event,
    count_by_status: CountByStatus,
) -> None:
    # First in the alphabet, and first in the queue.
    slow = f"a-{job_type}"
    ensure_topics(broker_config, topics_for([slow]))

    def be_slow(context: Context) -> None:
        let_go.wait(0.2)

    start_executor({slow: be_slow, job_type: lambda context: None}, concurrency=2)
    backlog = insert(2000, job_type=slow)
    start_scheduler()
    wait_for(lambda: count_by_status(backlog)[Status.COMPLETED] > 4)

    wait_until_all(insert(20), Status.COMPLETED)

    assert count_by_status(backlog)[Status.PENDING] > 1000
    let_go.set()
    wait_until_all(backlog, Status.COMPLETED, deadline=PATIENCE)


def test_a_job_is_dispatched_when_it_comes_due_not_at_the_next_tick(
    start_scheduler: StartScheduler,
    start_executor: StartExecutor,
    repo: Repository,
    insert: Insert,
    wait_until_all: WaitUntilAll,
) -> None:
    start_executor(lambda context: None)
    start_scheduler(tick=LONG_TICK)
    # The first one shows that everybody is up.
    wait_until_all(insert(1), Status.COMPLETED)

    for delay in (0, 200, 700):
        due_at = repo.clock.now() + timedelta(milliseconds=delay)
        jobs = insert(1, scheduled_at=due_at)
        [job] = wait_until_all(jobs, Status.COMPLETED)
        assert job.started_at is not None
        assert timedelta(0) <= job.started_at - due_at < LONG_TICK / 4


def test_a_job_that_fails_runs_again_when_its_delay_is_over(
    start_scheduler: StartScheduler,
    start_executor: StartExecutor,
    insert: Insert,
    wait_until_all: WaitUntilAll,
) -> None:
    def handler(context: Context) -> None:
        if context.attempt < 3:
            raise RuntimeError(f"attempt {context.attempt}")

    start_executor(handler)
    start_scheduler(tick=LONG_TICK)

    jobs = insert(3, retry={"strategy": "linear", "base": 0.2})

    for job in wait_until_all(jobs, Status.COMPLETED):
        assert job.attempts == 2
        delays = [
            later.started_at - earlier.finished_at for earlier, later in pairwise(job.history)
        ]
        for delay, at_least in zip(delays, (0.2, 0.4), strict=True):
            assert timedelta(seconds=at_least) <= delay < LONG_TICK / 4


def test_a_resigned_leader_hands_over(
    start_scheduler: StartScheduler,
    repo: Repository,
    insert: Insert,
    count_by_status: CountByStatus,
) -> None:
    schedulers = [start_scheduler(), start_scheduler()]
    [term] = wait_for(lambda: [each.term for each in schedulers if each.term])
    assert [each.term for each in schedulers].count(None) == 1

    term.resign()

    # Whoever leads now dispatches.
    jobs = insert(3)
    wait_for(lambda: count_by_status(jobs) == {Status.QUEUED: 3})
    wait_for(lambda: sum(each.term is not None for each in schedulers) == 1)
