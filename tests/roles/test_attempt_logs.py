"""What handlers log is kept by attempt, bounded, and never at the handlers' cost."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from prometheus_client import REGISTRY
from pymongo import MongoClient

from chronos_site.config import BrokerConfig, StoreConfig
from devstack.mongo import Mongod
from executor.executor import Executor
from executor.logs import ATTEMPT_LENGTH, LINE_LENGTH, AttemptLogs
from jobs.broker.publisher import Publisher
from jobs.broker.topics import ensure_topics, topics_for
from jobs.executions import AttemptLog, LogLine, execution_id
from jobs.lifecycle import Job, Outcome, Status, job_id_for
from jobs.registry import Context
from jobs.repository import Repository
from jobs.repository.records import belonging_to
from tests.builders import NOW
from tests.project import handlers as project
from tests.roles.conftest import dispatch
from tests.waiting import assert_takes_at_most, wait_for

FIRST, SECOND = (execution_id(job_id_for(key), "0123456789abcdef") for key in ("1", "2"))
EXECUTION_ID = len(FIRST)
library = logging.getLogger("some.library")

StartLogs = Callable[..., AttemptLogs]


@pytest.fixture(autouse=True)
def _at_info() -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.INFO)
    yield
    root.setLevel(level)


@pytest.fixture
def start_logs(repo: Repository) -> Iterator[StartLogs]:
    """Starts what keeps the lines."""
    started: list[AttemptLogs] = []

    def start(lines: int = 1000, repository: Repository = repo) -> AttemptLogs:
        logs = AttemptLogs(
            repository.attempt_logs,
            lines=lines,
            clock=repository.clock.now,
            give_up=threading.Event(),
        )
        started.append(logs)
        return logs

    yield start
    for logs in started:
        logs.close()


@pytest.fixture
def log_of(repo: Repository) -> Callable[[str], AttemptLog]:
    def log_of(which: str) -> AttemptLog:
        log = repo.attempt_logs.find(which)
        assert log is not None
        return log

    return log_of


def messages(log: AttemptLog | None) -> list[str]:
    return [] if log is None else [line.message for line in log.lines]


def dropped(reason: str) -> float:
    name = "executor_dropped_log_lines_total"
    return REGISTRY.get_sample_value(name, {"reason": reason}) or 0


def test_a_line_of_any_logger_is_kept_while_its_attempt_goes_on(
    start_logs: StartLogs, repo: Repository
) -> None:
    before = repo.clock.now()

    with start_logs().capturing(FIRST):
        library.info("price %d", 7)
        log = wait_for(lambda: repo.attempt_logs.find(FIRST))

    [line] = log.lines
    assert (line.level, line.logger, line.message) == ("INFO", "some.library", "price 7")
    # As exact as the machine's clock could be compared with the store's.
    assert before - timedelta(seconds=1) <= line.at <= repo.clock.now() + timedelta(seconds=1)
    assert not log.is_truncated


def test_a_line_can_be_read_within_a_second(start_logs: StartLogs, repo: Repository) -> None:
    logs, keys = start_logs(), count()

    def take() -> timedelta:
        which = execution_id(job_id_for(f"line {next(keys)}"), "0123456789abcdef")
        with logs.capturing(which):
            began = time.monotonic()
            library.info("here")
            wait_for(lambda: repo.attempt_logs.find(which))
            return timedelta(seconds=time.monotonic() - began)

    assert_takes_at_most(timedelta(seconds=1), take)


def test_closing_writes_what_is_left(start_logs: StartLogs, repo: Repository) -> None:
    logs = start_logs()
    with logs.capturing(FIRST):
        library.info("a")
        library.warning("b")

    logs.close()

    assert messages(repo.attempt_logs.find(FIRST)) == ["a", "b"]


def test_only_what_the_configuration_lets_through_is_kept(
    start_logs: StartLogs, repo: Repository
) -> None:
    logs = start_logs()
    with logs.capturing(FIRST):
        library.debug("a detail")
        library.info("news")
    logs.close()

    assert messages(repo.attempt_logs.find(FIRST)) == ["news"]


def test_attempts_in_one_thread_keep_their_lines_apart(
    start_logs: StartLogs, repo: Repository
) -> None:
    logs = start_logs()

    library.info("before")
    with logs.capturing(FIRST):
        library.info("first")
    library.info("between")
    with logs.capturing(SECOND):
        library.info("second")
    library.info("after")

    logs.close()
    assert messages(repo.attempt_logs.find(FIRST)) == ["first"]
    assert messages(repo.attempt_logs.find(SECOND)) == ["second"]


def test_attempts_in_one_event_loop_keep_their_lines_apart(
    start_logs: StartLogs, repo: Repository
) -> None:
    logs = start_logs()

    async def attempt(which: str) -> None:
        with logs.capturing(which):
            for number in range(10):
                library.info("%s: %d", which, number)
                await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(attempt(FIRST), attempt(SECOND))

    asyncio.run(both())

    logs.close()
    for which in (FIRST, SECOND):
        wanted = [f"{which}: {number}" for number in range(10)]
        assert messages(repo.attempt_logs.find(which)) == wanted


def test_a_thread_of_the_handlers_own_is_told_apart_by_its_logger(
    start_logs: StartLogs, repo: Repository
) -> None:
    logs = start_logs()
    mine = logging.LoggerAdapter(library, {"execution_id": FIRST})
    go_on, gone = threading.Event(), threading.Event()

    def work() -> None:
        mine.info("in time")
        go_on.wait(30)
        mine.info("too late")
        gone.set()

    with logs.capturing(FIRST):
        thread = threading.Thread(target=work)
        thread.start()
        wait_for(lambda: messages(repo.attempt_logs.find(FIRST)))
    with logs.capturing(SECOND):
        go_on.set()
        assert gone.wait(30)
        mine.info("in another attempt's thread")

    logs.close()
    assert messages(repo.attempt_logs.find(FIRST)) == ["in time"]
    assert repo.attempt_logs.find(SECOND) is None
    thread.join()


def test_a_traceback_belongs_to_its_line(
    start_logs: StartLogs, log_of: Callable[[str], AttemptLog]
) -> None:
    logs = start_logs()
    with logs.capturing(FIRST):
        try:
            raise LookupError("no such invoice")
        except LookupError:
            library.exception("cannot go on")
    logs.close()

    [line] = log_of(FIRST).lines
    assert line.level == "ERROR"
    assert line.message.startswith("cannot go on\nTraceback")
    assert line.message.endswith("LookupError: no such invoice")


def test_lines_that_cannot_be_shown_harm_nobody(
    start_logs: StartLogs, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in production, where a line is lost rather than told about on standard error.
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logs = start_logs()
    with logs.capturing(FIRST):
        library.info("%d", "no number")
        library.info("nobody's", extra={"execution_id": ["no", "id"]})
        library.info("half a \ud800 pair, \0")
        logging.getLogger("a.\ud800.b").info("by a strange name")
        library.info("x" * (LINE_LENGTH + 1))
    logs.close()

    assert messages(repo.attempt_logs.find(FIRST)) == [
        "half a ? pair, \0",
        "by a strange name",
        "x" * LINE_LENGTH + "…",
    ]


def test_a_flood_keeps_its_beginning_and_says_how_much_is_missing(
    start_logs: StartLogs, log_of: Callable[[str], AttemptLog]
) -> None:
    logs = start_logs(lines=1000)
    before = dropped("limit")
    with logs.capturing(FIRST):
        for number in range(20_000):
            library.info("line %d", number)
    logs.close()

    log = log_of(FIRST)
    *lines, last = messages(log)
    assert lines == [f"line {number}" for number in range(1000)]
    assert last == "19000 more lines were not kept"
    assert log.is_truncated
    assert dropped("limit") == before + 19_000


def test_long_lines_are_bounded_together(
    start_logs: StartLogs, log_of: Callable[[str], AttemptLog]
) -> None:
    logs = start_logs()
    with logs.capturing(FIRST):
        for _ in range(100):
            library.info("x" * LINE_LENGTH)
        library.info("short")
    logs.close()

    *lines, last = messages(log_of(FIRST))
    assert ATTEMPT_LENGTH - 2 * LINE_LENGTH <= sum(map(len, lines)) <= ATTEMPT_LENGTH
    assert last == f"{101 - len(lines)} more lines were not kept"


def test_nothing_is_kept_where_no_lines_are_wanted(start_logs: StartLogs, repo: Repository) -> None:
    logs = start_logs(lines=0)
    with logs.capturing(FIRST) as take:
        library.info("a")
        take(LogLine(NOW, "INFO", "elsewhere", "b"))
    logs.close()

    assert repo.attempt_logs.find(FIRST) is None


def test_lines_are_deleted_by_mongodb(
    start_logs: StartLogs, store_config: StoreConfig, repo: Repository
) -> None:
    logs = start_logs()
    with logs.capturing(FIRST):
        library.info("a")
    logs.close()

    client: MongoClient[dict[str, Any]] = MongoClient(store_config.uri, tz_aware=True)
    with client:
        collection = client[store_config.database]["attempt_logs"]
        [document] = collection.find()
        left = document["expiresAt"] - repo.clock.now()
        assert timedelta(minutes=-1) < left - store_config.retention_logs <= timedelta(0)
        assert collection.index_information()["expiry"]["expireAfterSeconds"] == 0


def test_while_mongodb_is_away_handlers_go_on_and_what_fits_is_written_later(
    private_mongod: Callable[[], Mongod], start_logs: StartLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("executor.logs._WAITING_LENGTH", 1000)
    server = private_mongod()
    repository = Repository.connect(StoreConfig(server.location, "test"))
    repository.ensure_indexes()
    logs = start_logs(repository=repository)
    before = dropped("backlog")
    with logs.capturing(FIRST):
        library.info("a")
    wait_for(lambda: repository.attempt_logs.find(FIRST))
    server.kill()

    begun = datetime.now()  # noqa: DTZ005 - only a difference
    with logs.capturing(SECOND):
        for number in range(100):
            library.info("%-100d", number)
    took = datetime.now() - begun  # noqa: DTZ005
    server.start()
    server.wait_ready()
    logs.close()

    log = repository.attempt_logs.find(SECOND)
    repository.close()
    assert took < timedelta(seconds=10)
    assert log is not None
    *lines, last = messages(log)
    assert 1 <= len(lines) <= 20
    assert [int(line) for line in lines] == list(range(len(lines)))
    assert last == f"{100 - len(lines)} more lines were not kept"
    assert log.is_truncated
    assert dropped("backlog") == before + 100 - len(lines)


@pytest.fixture
def lines_by_attempt(repo: Repository) -> Callable[[Job], list[list[str]]]:
    """What each attempt of a job has logged, in no order of the attempts."""

    def lines_by_attempt(job: Job) -> list[list[str]]:
        found = repo.attempt_logs._logs.find({"_id": belonging_to(job.id)}, {"lines": 1})
        claims = {document["_id"][:EXECUTION_ID] for document in found}
        return sorted(messages(repo.attempt_logs.find(claim)) for claim in claims)

    return lines_by_attempt


def test_jobs_that_share_a_thread_keep_their_own_lines(
    start_executor: Callable[..., Executor],
    queue: Callable[..., list[Job]],
    wait_until_all: Callable[..., list[Job]],
    lines_by_attempt: Callable[[Job], list[list[str]]],
) -> None:
    def handler(context: Context) -> None:
        library.info("by a library for %s", context.job_id)
        context.logger.info("attempt %d", context.attempt)

    executor = start_executor(handler, concurrency=1)
    jobs = wait_until_all(queue(20), Status.COMPLETED)
    executor.close()

    for job in jobs:
        assert lines_by_attempt(job) == [[f"by a library for {job.id}", "attempt 1"]]


def test_what_an_abandoned_handler_logs_is_its_own(
    start_executor: Callable[..., Executor],
    queue: Callable[..., list[Job]],
    wait_until_all: Callable[..., list[Job]],
    lines_by_attempt: Callable[[Job], list[list[str]]],
    repo: Repository,
    publisher: Publisher,
) -> None:
    go_on, gone = threading.Event(), threading.Event()

    def handler(context: Context) -> None:
        if context.attempt == 1:
            context.cancelled.wait(30)
            go_on.wait(30)
            library.info("late")
            gone.set()
        else:
            go_on.set()
            gone.wait(30)
            library.info("second")

    executor = start_executor(handler, concurrency=1)
    retry = {"strategy": "fixed", "base": 0.001}
    [job] = queue(1, timeout_seconds=3, retry=retry)
    [job] = wait_until_all([job], Status.PENDING)
    dispatch(repo, publisher, [job])
    wait_until_all([job], Status.COMPLETED)
    executor.close()

    assert lines_by_attempt(job) == [["late"], ["second"]]


def test_lines_of_handlers_in_a_child_process_arrive_also_when_it_dies(
    start_executor: Callable[..., Executor],
    broker_config: BrokerConfig,
    repo: Repository,
    queue: Callable[..., list[Job]],
    wait_until_all: Callable[..., list[Job]],
    lines_by_attempt: Callable[[Job], list[list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.project.settings")
    job_type = "test-log-in-process"
    ensure_topics(broker_config, topics_for([job_type]))
    handlers = {job_type: project.log_in_child}
    executor = start_executor(handlers, in_process=True, concurrency=1)
    fields = {"job_type": job_type, "max_attempts": 1}

    [done] = wait_until_all(queue(1, **fields), Status.COMPLETED)
    [died] = wait_until_all(queue(1, payload='{"then":"die"}', **fields), Status.DLQ)
    [blocks] = queue(1, payload='{"then":"block"}', **fields)
    said = ["attempt 1", "from a thread", "last words"]
    wait_for(lambda: lines_by_attempt(blocks) == [said])
    assert repo.jobs.get(blocks.id).status is Status.RUNNING
    assert repo.interventions.cancel(blocks.id, now=repo.clock.now())
    executor.close()

    assert [lines_by_attempt(job) for job in (done, died, blocks)] == [[said]] * 3
    assert died.history[0].outcome is Outcome.FAILED
