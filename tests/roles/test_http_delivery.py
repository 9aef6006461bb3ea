"""HTTP deliveries by an executor: many at once, broken off when they must, never lost."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from chronos_site.config import BrokerConfig, DeliveryConfig, ExecutorConfig
from executor.delivery.pool import delivery_pool
from executor.executor import Executor
from jobs.broker.topics import ensure_topics, topics_for
from jobs.executions import LogLine
from jobs.lifecycle import Job, Outcome, Response, Status
from jobs.repository import Repository
from jobs.repository.executions import Wanted
from tests.deliveries import LOOPBACK
from tests.processes import RoleProcess
from tests.targets import Arrived, Target, answer, sends
from tests.waiting import wait_for

StartCouriers = Callable[..., Executor]
Insert = Callable[..., list[Job]]
WaitUntilAll = Callable[..., list[Job]]

DEADLINE = 30


@pytest.fixture
def job_type(broker_config: BrokerConfig) -> str:
    """Deliveries have a topic of all tests; messages for other databases are dropped."""
    ensure_topics(broker_config, topics_for(["http"]))
    return "http"


@pytest.fixture
def start_couriers(repo: Repository, broker_config: BrokerConfig) -> Iterator[StartCouriers]:
    """Starts an executor of deliveries; keywords are fields of `DeliveryConfig`.

    `executor` gives fields of `ExecutorConfig`.
    """
    started: list[Executor] = []

    def start(executor: dict[str, Any] | None = None, **settings: Any) -> Executor:
        name = f"couriers-{len(started)}"
        delivery = DeliveryConfig(**{"allowed_networks": LOOPBACK} | settings)
        config = ExecutorConfig(**{"drain_timeout": timedelta(seconds=1)} | (executor or {}))
        pool = delivery_pool(["http"], delivery, broker_config, name=name, user_agent="Chronos")
        started.append(Executor(name, config, broker_config, repo, pool))
        return started[-1]

    yield start
    for executor in started:
        executor.close()


class Blocking:
    """A target that answers when it is let."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.target = Target(self._behave)

    def _behave(self, connection: socket.socket, _: Arrived) -> None:
        # Looks up at once when the client goes away.
        connection.setblocking(False)
        while not self.let_go.is_set():
            try:
                if connection.recv(1, socket.MSG_PEEK) == b"":
                    return
            except BlockingIOError:
                time.sleep(0.01)
        connection.setblocking(True)
        connection.sendall(answer(200, b"late"))


@pytest.fixture
def blocking() -> Iterator[Blocking]:
    blocking = Blocking()
    yield blocking
    blocking.let_go.set()
    blocking.target.close()


def to(target: Target, **delivery: Any) -> str:
    return json.dumps({"url": target.url} | delivery)


def test_what_was_answered_is_kept(
    start_couriers: StartCouriers, repo: Repository, queue: Insert, wait_until_all: WaitUntilAll
) -> None:
    target = Target(sends(answer(503, b"busy", Retry_After="7")))
    start_couriers()

    [job] = wait_until_all(queue(delivery=to(target)), Status.PENDING)
    target.close()

    assert job.attempts == 1
    assert job.last_error == f"127.0.0.1:{target.port} answered 503 Service Unavailable"
    [tried] = job.history
    assert tried.outcome is Outcome.FAILED
    assert tried.response is not None
    assert tried.response.code == 503
    assert job.scheduled_at - tried.finished_at == timedelta(seconds=7)
    [listed], _ = repo.executions.page(Wanted(job_id=job.id), limit=10)
    execution = repo.executions.find(listed.id)
    assert execution is not None
    assert execution.attempt.response == Response(503, "busy")
    assert execution.attempt.error_class == "HttpStatus"
    [line] = wait_for(lambda: log_lines(repo, execution.id))
    assert line.message == f"POST to 127.0.0.1:{target.port}: 503 Service Unavailable"


def log_lines(repo: Repository, execution_id: str) -> Sequence[LogLine]:
    log = repo.attempt_logs.find(execution_id)
    return log.lines if log else ()


def test_two_hundred_slow_targets_are_waited_for_at_the_same_time(
    start_couriers: StartCouriers, queue: Insert, wait_until_all: WaitUntilAll
) -> None:
    """None answers before all of them have been asked."""
    all_asked = threading.Barrier(200)

    def behave(connection: socket.socket, _: Arrived) -> None:
        all_asked.wait(DEADLINE)
        connection.sendall(answer(200))

    target = Target(behave)
    start_couriers()

    jobs = wait_until_all(queue(200, delivery=to(target)), Status.COMPLETED)
    target.close()

    sent = Counter(request.headers["idempotency-key"] for request in target.requests)
    assert sent == Counter(str(job.id) for job in jobs)
    assert {job.attempts for job in jobs} == {0}


def test_a_cancelled_delivery_is_broken_off_and_frees_its_place(
    start_couriers: StartCouriers,
    repo: Repository,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    blocking: Blocking,
) -> None:
    target = Target(sends(answer(200)))
    start_couriers(concurrency=1)
    [job] = queue(delivery=to(blocking.target))
    wait_for(lambda: blocking.target.requests)

    assert repo.interventions.cancel(job.id, now=repo.clock.now())

    assert blocking.target.left.wait(DEADLINE)
    wait_until_all(queue(delivery=to(target)), Status.COMPLETED)
    target.close()
    assert repo.jobs.get(job.id).status is Status.CANCELLED


def test_an_attempt_that_outlives_the_jobs_time_is_broken_off_and_frees_its_place(
    start_couriers: StartCouriers, queue: Insert, wait_until_all: WaitUntilAll, blocking: Blocking
) -> None:
    start_couriers(concurrency=1)
    jobs = [
        queue(delivery=to(blocking.target), timeout_seconds=0.5, max_attempts=1)[0] for _ in "12"
    ]

    done = wait_until_all(jobs, Status.DLQ)

    assert blocking.target.left.wait(DEADLINE)
    for job in done:
        assert [attempt.outcome for attempt in job.history] == [Outcome.TIMED_OUT]
        assert job.last_error == "the delivery took longer than timeoutSeconds, 0.5"


def test_a_drain_lets_deliveries_end(
    start_couriers: StartCouriers, queue: Insert, wait_until_all: WaitUntilAll, blocking: Blocking
) -> None:
    executor = start_couriers(executor={"drain_timeout": timedelta(seconds=DEADLINE)})
    jobs = queue(delivery=to(blocking.target))
    wait_for(lambda: blocking.target.requests)

    threading.Timer(0.5, blocking.let_go.set).start()
    executor.close()

    [job] = wait_until_all(jobs, Status.COMPLETED)
    assert job.attempts == 0


def test_what_outlives_the_drain_is_broken_off_and_handed_back_without_an_attempt(
    start_couriers: StartCouriers, queue: Insert, wait_until_all: WaitUntilAll, blocking: Blocking
) -> None:
    executor = start_couriers(executor={"drain_timeout": timedelta(seconds=0.5)})
    jobs = queue(delivery=to(blocking.target))
    wait_for(lambda: blocking.target.requests)

    begun = time.monotonic()
    executor.close()

    assert time.monotonic() - begun < DEADLINE
    assert blocking.target.left.wait(DEADLINE)
    [job] = wait_until_all(jobs, Status.PENDING)
    assert job.attempts == 0
    assert [attempt.outcome for attempt in job.history] == [Outcome.HANDED_BACK]


def test_a_killed_executor_delivers_again_under_the_same_key(
    start_role: Callable[..., RoleProcess],
    start_reaper: Callable[..., object],
    start_scheduler: Callable[..., object],
    insert: Insert,
    wait_until_all: WaitUntilAll,
    blocking: Blocking,
) -> None:
    settings = {
        "KAFKA_SESSION_TIMEOUT": "2s",
        "DELIVERY_ALLOWED_NETWORKS": "127.0.0.0/8",
    }
    start_scheduler()
    executor = start_role("runexecutor", "--type", "http", CLAIM_TIMEOUT="1s", **settings)
    executor.wait_ready()
    retry = {"strategy": "fixed", "base": 0.001}
    jobs = insert(20, delivery=to(blocking.target), retry=retry)
    wait_for(lambda: len(blocking.target.requests) == 20)

    executor.kill()
    blocking.let_go.set()
    start_reaper(claim_timeout=timedelta(seconds=1))
    start_role("runexecutor", "--type", "http", **settings)

    done = wait_until_all(jobs, Status.COMPLETED)
    assert {job.attempts for job in done} == {1}
    assert {job.history[0].outcome for job in done} == {Outcome.LOST}
    keys = Counter(request.headers["idempotency-key"] for request in blocking.target.requests)
    assert keys == {str(job.id): 2 for job in jobs}
    tries = {request.headers["chronos-attempt"] for request in blocking.target.requests[20:]}
    assert tries == {"2"}


def test_one_process_runs_handlers_and_deliveries_and_drains_both_side_by_side(
    start_role: Callable[..., RoleProcess],
    broker_config: BrokerConfig,
    repo: Repository,
    queue: Insert,
    wait_until_all: WaitUntilAll,
    blocking: Blocking,
) -> None:
    ensure_topics(broker_config, topics_for(["slow"]))
    executor = start_role(
        *("runexecutor", "--type", "slow,http", "--name", "both"),
        DELIVERY_ALLOWED_NETWORKS="127.0.0.0/8",
        DRAIN_TIMEOUT="4s",
    )
    jobs = [
        *queue(job_type="slow", payload='{"sleepMs": 60000}'),
        *queue(delivery=to(blocking.target)),
    ]
    wait_until_all(jobs, Status.RUNNING)
    wait_for(lambda: blocking.target.requests)

    def nodes() -> dict[str, tuple[str, ...]]:
        since = repo.clock.now() - timedelta(seconds=10)
        live = repo.nodes.live(role="executor", seen_since=since)
        return {node.name: node.job_types for node in live}

    # Jobs that wait already are taken up before the first report.
    wait_for(lambda: nodes() == {"both": ("slow",), "both-delivery": ("http",)}, show=nodes)
    _, metrics = executor.get("/metrics")

    begun = time.monotonic()
    assert executor.terminate() == 0
    assert time.monotonic() - begun >= 4

    for pool in ("handlers", "deliveries"):
        assert f'executor_held{{pool="{pool}"}} 1.0' in metrics
    handed_back = wait_until_all(jobs, Status.PENDING)
    assert {job.attempts for job in handed_back} == {0}
    # Side by side: one after the other they would end a whole drain apart.
    one, other = (job.history[-1].finished_at for job in handed_back)
    assert abs(one - other) < timedelta(seconds=4)
