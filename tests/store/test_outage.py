"""MongoDB away: every method says so within bounded time, and works again by itself."""

from __future__ import annotations

import inspect
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final

import pytest
from bson import ObjectId
from prometheus_client import REGISTRY
from pymongo import MongoClient

from chronos_site.config import StoreConfig
from devstack.mongo import Mongod
from jobs import attempts
from jobs.audit import API_CLIENT, Action, Entry
from jobs.bulk import Filter, Kind, Operation
from jobs.definitions import Definition
from jobs.errors import StoreUnavailable
from jobs.executions import execution_of
from jobs.lifecycle import Status
from jobs.repository import Repository, connection
from jobs.repository.attempt_logs import LogBatch
from jobs.repository.executions import Wanted
from jobs.repository.job_lists import Wanted as JobsWanted
from jobs.repository.nodes import Node
from jobs.repository.outages import outages_named
from jobs.repository.templates import Advance
from jobs.repository.transactions import in_transaction
from jobs.statistics import Resolution, Stretch, Tally
from tests.builders import NOW, a_job, a_template
from tests.waiting import wait_for

JOB: Final = a_job(status=Status.RUNNING, claim_id="c1")
HELD: Final = [(JOB.id, "c1")]
END: Final = attempts.completed(JOB, started_at=NOW, finished_at=NOW)
DEFINITION: Final = Definition(
    tenant_id="tenant-a", name="hook", version=1, job_type="noop", created_at=NOW, updated_at=NOW
)
EXECUTION: Final = execution_of(JOB, END)
STRETCH: Final = Stretch(Resolution.MINUTE, NOW, "noop", None)
LEASE: Final = timedelta(minutes=5)
BOUND_SECONDS: Final = 40.0
"""Server selection takes 5 s, some methods are tried twice, and all of them at the same time."""

Call = Callable[[Repository], object]


def watch(repo: Repository) -> None:
    with repo.dispatch.watch(wait_ms=10) as wakes:
        next(wakes)


def an_entry() -> Entry:
    return Entry(
        at=NOW, author=API_CLIENT, action=Action.JOB_CANCEL, tenant_id="tenant-a", targets=()
    )


CALLS: Final[Mapping[str, Call]] = {
    "ping": lambda repo: repo.ping(),
    "ensure_indexes": lambda repo: repo.ensure_indexes(),
    "require_indexes": lambda repo: repo.require_indexes(),
    "drop_obsolete_indexes": lambda repo: repo.drop_obsolete_indexes(),
    "jobs.insert": lambda repo: repo.jobs.insert([a_job()]),
    "jobs.insert_each": lambda repo: repo.jobs.insert_each([a_job()]),
    "jobs.find": lambda repo: repo.jobs.find(JOB.id),
    "jobs.get": lambda repo: repo.jobs.get(JOB.id),
    "jobs.read": lambda repo: repo.jobs.read(JOB.id),
    "jobs.page": lambda repo: repo.jobs.page("tenant-a", limit=1),
    "jobs.schedules": lambda repo: repo.jobs.schedules("tenant-a", limit=1),
    "interventions.reschedule": lambda repo: repo.interventions.reschedule(
        JOB.id, due_at=NOW, now=NOW
    ),
    "interventions.cancel": lambda repo: repo.interventions.cancel(JOB.id, now=NOW),
    "interventions.redrive": lambda repo: repo.interventions.redrive(JOB.id, due_at=NOW, now=NOW),
    "interventions.pause": lambda repo: repo.interventions.pause(JOB.id, now=NOW),
    "interventions.resume": lambda repo: repo.interventions.resume(JOB.id, next_at=NOW, now=NOW),
    "interventions.discard": lambda repo: repo.interventions.discard(JOB.id, now=NOW),
    "interventions.hasten": lambda repo: repo.interventions.hasten(JOB.id, now=NOW),
    "interventions.change_priority": lambda repo: repo.interventions.change_priority(
        JOB.id, 1, now=NOW
    ),
    "interventions.add": lambda repo: repo.interventions.add(
        a_job(), made_from=JOB.id, action=Action.JOB_CLONE
    ),
    "audit_log.append": lambda repo: repo.audit_log.append([an_entry()]),
    "audit_log.page": lambda repo: repo.audit_log.page(None, limit=1),
    "dispatch.due": lambda repo: repo.dispatch.due("noop", now=NOW, limit=1),
    "dispatch.next_due": lambda repo: repo.dispatch.next_due("noop", after=NOW, until=NOW),
    "dispatch.count_due": lambda repo: repo.dispatch.count_due(
        "noop", since=NOW, until=NOW + LEASE, limit=1
    ),
    "dispatch.queue": lambda repo: repo.dispatch.queue([JOB.id], claim_id="q", now=NOW),
    "dispatch.traceparents": lambda repo: repo.dispatch.traceparents([JOB.id]),
    "dispatch.release": lambda repo: repo.dispatch.release([JOB.id], claim_id="q", now=NOW),
    "dispatch.in_flight": lambda repo: repo.dispatch.in_flight(),
    "dispatch.watch": watch,
    "claims.claim": lambda repo: repo.claims.claim(
        [JOB.id], owner="e1", claim_id="c2", lease=LEASE, now=NOW
    ),
    "claims.start": lambda repo: repo.claims.start(HELD, now=NOW),
    "claims.extend": lambda repo: repo.claims.extend(HELD, until=NOW),
    "claims.lost": lambda repo: repo.claims.lost(HELD),
    "claims.finish": lambda repo: repo.claims.finish([END], now=NOW),
    "claims.hand_back": lambda repo: repo.claims.hand_back(HELD, now=NOW),
    "recovery.requeue_lost_messages": lambda repo: repo.recovery.requeue_lost_messages(
        queued_before=NOW, now=NOW
    ),
    "recovery.reclaim_unstarted": lambda repo: repo.recovery.reclaim_unstarted(now=NOW),
    "recovery.expired": lambda repo: repo.recovery.expired(now=NOW, limit=1),
    "recovery.take_back": lambda repo: repo.recovery.take_back([END], now=NOW),
    "executions.record": lambda repo: repo.executions.record([EXECUTION]),
    "executions.replace": outages_named()(
        lambda repo: in_transaction(repo.jobs._jobs, partial(repo.executions.replace, [EXECUTION]))
    ),
    "executions.find": lambda repo: repo.executions.find(EXECUTION.id),
    "facts.version": lambda repo: repo.facts.version(),
    "facts.is_sharded": lambda repo: repo.facts.is_sharded(),
    "facts.clock_offset": lambda repo: repo.facts.clock_offset(),
    "facts.replica_set": lambda repo: repo.facts.replica_set(),
    "facts.oplog": lambda repo: repo.facts.oplog(),
    "facts.indexes": lambda repo: repo.facts.indexes(),
    "facts.unknown_fields": lambda repo: repo.facts.unknown_fields(),
    "executions.page": lambda repo: repo.executions.page(Wanted(tenant_id="tenant-a"), limit=1),
    "attempt_logs.append": lambda repo: repo.attempt_logs.append(
        [LogBatch(EXECUTION.id, 0, [])], now=NOW
    ),
    "attempt_logs.find": lambda repo: repo.attempt_logs.find(EXECUTION.id),
    "dead_letters.unannounced": lambda repo: repo.dead_letters.unannounced(before=NOW, limit=1),
    "dead_letters.mark_announced": lambda repo: repo.dead_letters.mark_announced([JOB.id], now=NOW),
    "dead_letter_lists.groups": lambda repo: repo.dead_letter_lists.groups(Filter(), None),
    "dead_letter_lists.page": lambda repo: repo.dead_letter_lists.page(Filter(), None, limit=1),
    "job_lists.page": lambda repo: repo.job_lists.page(JobsWanted(), None, limit=1),
    "job_lists.search": lambda repo: repo.job_lists.search("key", None),
    "job_lists.counts": lambda repo: repo.job_lists.counts(None),
    "bulk.start": lambda repo: repo.bulk.start(
        Operation(
            id=ObjectId(),
            kind=Kind.REDRIVE,
            filter=Filter(),
            tenants=None,
            author=API_CLIENT,
            started_at=NOW,
        )
    ),
    "bulk.find": lambda repo: repo.bulk.find(JOB.id, None),
    "bulk.page": lambda repo: repo.bulk.page(None, limit=1),
    "bulk.cancel": lambda repo: repo.bulk.cancel(JOB.id, by=API_CLIENT, now=NOW),
    "bulk.fail": lambda repo: repo.bulk.fail(JOB.id, "why", runner="r1", now=NOW),
    "bulk.next_turn": lambda repo: repo.bulk.next_turn(),
    "bulk.take_turn": lambda repo: repo.bulk.take_turn(
        JOB.id, size=1, pause=LEASE, runner="r1", now=NOW
    ),
    "dead_letters.assign_groups": lambda repo: repo.dead_letters.assign_groups(),
    "census.by_status": lambda repo: repo.census.by_status(limit=1),
    "census.types_with_pending": lambda repo: repo.census.types_with_pending(limit=1),
    "census.backlog": lambda repo: repo.census.backlog("noop", now=NOW, limit=1),
    "overview.dead_by_tenant": lambda repo: repo.overview.dead_by_tenant(None),
    "overview.backlogs": lambda repo: repo.overview.backlogs(now=NOW, tenants=None),
    "overview.queued": lambda repo: repo.overview.queued(tenants=None),
    "templates.due": lambda repo: repo.templates.due(now=NOW, limit=1),
    "templates.next_due": lambda repo: repo.templates.next_due(),
    "templates.with_live_runs": lambda repo: repo.templates.with_live_runs([JOB.id]),
    "template_changes.create": lambda repo: repo.template_changes.create(a_template()),
    "template_changes.edit": lambda repo: repo.template_changes.edit(JOB, JOB, now=NOW),
    "template_changes.backfill": lambda repo: repo.template_changes.backfill(
        JOB, [a_job()], details={}, now=NOW
    ),
    "template_changes.ended_pauses": lambda repo: repo.template_changes.ended_pauses(
        now=NOW, limit=1
    ),
    "template_changes.next_end": lambda repo: repo.template_changes.next_end(),
    "template_changes.end_pause": lambda repo: repo.template_changes.end_pause(
        JOB.id, until=NOW, next_at=NOW, now=NOW, by=API_CLIENT
    ),
    "template_lists.page": lambda repo: repo.template_lists.page(None, limit=1),
    "template_lists.last_runs": lambda repo: repo.template_lists.last_runs([JOB.id]),
    "template_lists.existing": lambda repo: repo.template_lists.existing([JOB.id]),
    "definitions.create": lambda repo: repo.definitions.create(DEFINITION),
    "definitions.replace": lambda repo: repo.definitions.replace(DEFINITION, version=1),
    "uses.insert_template": lambda repo: repo.uses.insert_template(a_template(definition="hook")),
    "uses.delete_definition": lambda repo: repo.uses.delete_definition(
        "tenant-a", "hook", version=1, now=NOW
    ),
    "definitions.find": lambda repo: repo.definitions.find("tenant-a", "hook"),
    "definitions.find_all": lambda repo: repo.definitions.find_all({("tenant-a", "hook")}),
    "definitions.listed": lambda repo: repo.definitions.listed(None, limit=1),
    "uses.templates": lambda repo: repo.uses.templates("tenant-a", "hook", limit=1),
    "uses.jobs": lambda repo: repo.uses.jobs("tenant-a", "hook", limit=1),
    "definitions.page": lambda repo: repo.definitions.page("tenant-a", limit=1),
    "templates.advance": lambda repo: repo.templates.advance([Advance(JOB.id, NOW, NOW)], now=NOW),
    "templates.dead_letter": lambda repo: repo.templates.dead_letter(JOB.id, reason="why", now=NOW),
    "nodes.report": lambda repo: repo.nodes.report(Node("e1", "executor", NOW), now=NOW),
    "nodes.live": lambda repo: repo.nodes.live(role="executor", seen_since=NOW),
    "nodes.seen": lambda repo: repo.nodes.seen(since=NOW),
    "nodes.remove": lambda repo: repo.nodes.remove("e1"),
    "statistics.add": lambda repo: repo.statistics.add({STRETCH: Tally(completed=1)}, batch="b"),
    "statistics.read": lambda repo: repo.statistics.read(
        Resolution.MINUTE, since=NOW, tenants=None
    ),
    "login_attempts.count": lambda repo: repo.login_attempts.count(
        "olga", "192.0.2.1", window=LEASE, now=NOW
    ),
    "login_attempts.forget": lambda repo: repo.login_attempts.forget("olga", "192.0.2.1"),
    "login_attempts.take_back": lambda repo: repo.login_attempts.take_back("192.0.2.1"),
    "buckets.newest": lambda repo: repo.buckets.newest(until=NOW),
    "buckets.recent": lambda repo: repo.buckets.recent(limit=1),
    "buckets.insert": lambda repo: repo.buckets.insert(NOW, due=1, by="s1", term=1, now=NOW),
    "buckets.take_over": lambda repo: repo.buckets.take_over(by="s1", term=1),
    "buckets.close": lambda repo: repo.buckets.close(NOW, partitions=4, by="s1", now=NOW),
    "clock.now": lambda repo: repo.clock.now(),
}


def methods(of: object) -> set[str]:
    return {name for name, _ in inspect.getmembers(of, inspect.ismethod) if name[0] != "_"}


def outcome(call: Callable[[], object]) -> tuple[Exception | None, float]:
    """What a call raises, and how many seconds it takes."""
    begun = time.monotonic()
    try:
        call()
    except Exception as exc:  # noqa: BLE001 - whatever it is, the test is about it
        return exc, time.monotonic() - begun
    return None, time.monotonic() - begun


def counted() -> float:
    return REGISTRY.get_sample_value("store_errors_total") or 0


def outcomes(repo: Repository) -> dict[str, tuple[Exception | None, float]]:
    """The same of all methods, called at the same time."""
    with ThreadPoolExecutor(len(CALLS)) as threads:
        futures = {
            name: threads.submit(outcome, partial(call, repo)) for name, call in CALLS.items()
        }
    return {name: future.result() for name, future in futures.items()}


@contextmanager
def stalled(server: Mongod) -> Iterator[None]:
    """The server keeps its connections and says nothing (SIGSTOP)."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.fixture
def mongod(private_mongod: Callable[[], Mongod]) -> Mongod:
    return private_mongod()


@pytest.fixture
def own_repo(mongod: Mongod) -> Iterator[Repository]:
    """A repository whose server may go away."""
    repository = Repository.connect(StoreConfig(mongod.location, "chronos"))
    yield repository
    repository.close()


def test_every_method_is_called_here(repo: Repository) -> None:
    stores = {name: store for name, store in vars(repo).items() if name[0] != "_"}

    assert CALLS.keys() == (methods(repo) - {"connect", "close"}).union(
        f"{name}.{method}" for name, store in stores.items() for method in methods(store)
    )


def test_each_method_names_the_outage_and_works_again_after_it(
    mongod: Mongod, own_repo: Repository
) -> None:
    own_repo.ensure_indexes()
    own_repo.jobs.insert([JOB])

    mongod.kill()
    before = counted()
    away = outcomes(own_repo)
    assert counted() >= before + len(away)
    mongod.restart()
    back = outcomes(own_repo)

    clock_error, _ = away.pop("clock.now")
    assert isinstance(clock_error, StoreUnavailable)
    for name, (error, seconds) in away.items():
        assert isinstance(error, StoreUnavailable), name
        assert "MONGO_URI" in str(error)
        assert seconds < BOUND_SECONDS, name
    assert {name: error for name, (error, _) in back.items() if error} == {}
    assert own_repo.jobs.get(JOB.id).idempotency_key == JOB.idempotency_key


def test_a_server_that_says_nothing_is_not_waited_for_for_ever(
    mongod: Mongod, own_repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_repo.ensure_indexes()
    own_repo.jobs.insert([JOB])
    monkeypatch.setattr(connection, "_SOCKET_MS", 1_000)
    monkeypatch.setattr(connection, "_SELECTION_MS", 2_000)
    repo = Repository.connect(StoreConfig(mongod.location, "chronos"))

    with stalled(mongod):
        away = outcomes(repo)
    mongod.wait_ready()

    for name, (error, seconds) in away.items():
        assert isinstance(error, StoreUnavailable), name
        assert seconds < BOUND_SECONDS, name
    wait_for(lambda: outcome(lambda: repo.jobs.get(JOB.id))[0] is None)
    repo.close()


def test_an_open_stream_that_breaks_says_so(mongod: Mongod, own_repo: Repository) -> None:
    own_repo.ensure_indexes()

    def follow() -> None:
        with own_repo.dispatch.watch(wait_ms=10) as wakes:
            assert next(wakes) is None
            mongod.kill()
            assert set(wakes) == {None}

    with pytest.raises(StoreUnavailable):
        follow()


def errors_while(repo: Repository, disturb: Callable[[], object]) -> list[tuple[str, Exception]]:
    """What the methods raise that is no outage, called again and again during a disturbance."""
    over = threading.Event()

    def hammer(name: str) -> list[tuple[str, Exception]]:
        found = []
        while not over.is_set():
            error, _ = outcome(partial(CALLS[name], repo))
            if error is not None and not isinstance(error, StoreUnavailable):
                found.append((name, error))
        return found

    with ThreadPoolExecutor(len(CALLS)) as threads:
        # The clock answers without the server.
        found = [threads.submit(hammer, name) for name in CALLS if name != "clock.now"]
        disturb()
        over.set()
    return [each for future in found for each in future.result()]


def test_a_restart_and_a_step_down_are_outages_and_no_bugs(
    mongod: Mongod, own_repo: Repository
) -> None:
    own_repo.ensure_indexes()
    own_repo.jobs.insert([JOB])
    admin: MongoClient[dict[str, Any]] = MongoClient(
        "127.0.0.1", mongod.port, directConnection=True
    )

    def step_down() -> None:
        # Nobody else can be elected, so it leads again after a second.
        admin.admin.command("replSetStepDown", 1, force=True)
        mongod.wait_ready()

    with admin:
        assert errors_while(own_repo, step_down) == []
        assert errors_while(own_repo, mongod.restart) == []
    assert outcome(own_repo.ping)[0] is None
