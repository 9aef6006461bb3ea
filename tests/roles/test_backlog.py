"""The reaper's gauges of what is due, and of who serves it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

import pytest
from prometheus_client import REGISTRY
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from chronos_site.config import StoreConfig
from devstack.mongo import Mongod
from jobs.errors import StoreUnavailable
from jobs.lifecycle import Job
from jobs.repository import Repository
from jobs.repository.indexes import DISPATCH, TEMPLATES_DUE
from jobs.repository.nodes import Node
from jobs.repository.overview import Backlog
from reaper import backlog
from reaper.backlog import BacklogGauges
from reaper.reaper import Reaper
from scheduler.scheduler import Scheduler
from tests.builders import a_template
from tests.waiting import wait_for

Insert = Callable[..., list[Job]]
Documents = Collection[dict[str, Any]]

HOUR: Final = timedelta(hours=1)


@pytest.fixture(autouse=True)
def without_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "_LARGEST_PART_OF_TIME", 1)


def shown(name: str, job_type: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"job_type": job_type})


def test_what_is_due_and_who_serves_it_is_shown_by_type(
    repo: Repository, insert: Insert, job_type: str
) -> None:
    now = repo.clock.now()
    insert(3, scheduled_at=now - HOUR)
    insert(2, scheduled_at=now + HOUR)
    sent = [job.id for job in insert(4)]
    repo.dispatch.queue(sent, claim_id="c", now=now)
    for name, is_draining in (("one", False), ("two", False), ("leaving", True)):
        node = Node(name, "executor", now, (job_type, "noop"), 16, is_draining=is_draining)
        repo.nodes.report(node, now=now)
    repo.nodes.report(Node("gone", "executor", now, (job_type,), 16), now=now - HOUR)

    BacklogGauges(repo, ["noop"], stop=threading.Event()).count()

    assert shown("jobs_due", job_type) == 3
    assert HOUR.total_seconds() <= (shown("jobs_oldest_due_seconds", job_type) or 0)
    assert shown("jobs_queued", job_type) == 4
    assert shown("executors_serving", job_type) == 2
    assert shown("jobs_due", "noop") == 0
    assert shown("jobs_oldest_due_seconds", "noop") == 0
    assert shown("executors_serving", "noop") == 2


def test_a_type_that_nobody_serves_is_shown_as_long_as_jobs_wait(
    repo: Repository, insert: Insert, job_type: str
) -> None:
    [job] = insert()
    gauges = BacklogGauges(repo, [], stop=threading.Event())

    gauges.count()
    assert shown("jobs_due", job_type) == 1
    assert shown("executors_serving", job_type) == 0

    repo.interventions.cancel(job.id, now=repo.clock.now())
    gauges.count()
    assert shown("jobs_due", job_type) is None
    assert shown("jobs_oldest_due_seconds", job_type) is None
    assert shown("jobs_queued", job_type) is None
    assert shown("executors_serving", job_type) is None


def test_the_whole_count_is_bounded_however_many_types_there_are(
    repo: Repository, insert: Insert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "_COUNTED", 20)
    names = [f"type-{uuid4().hex}" for _ in range(4)]
    for name in names:
        insert(10, job_type=name)
    gauges = BacklogGauges(repo, [], stop=threading.Event())

    gauges.count()

    assert [shown("jobs_due", name) for name in names] == [20 // 4] * 4


def test_a_count_that_takes_long_is_not_repeated_at_once(
    repo: Repository, insert: Insert, job_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "_LARGEST_PART_OF_TIME", 1 / 1_000_000)
    gauges = BacklogGauges(repo, [job_type], stop=threading.Event())
    gauges.count()
    insert()

    gauges.count()

    assert shown("jobs_due", job_type) == 0


def test_a_count_ends_between_two_types_when_the_reaper_does(
    repo: Repository, insert: Insert, job_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    asked: list[str] = []
    backlog_of = repo.census.backlog

    def ask(name: str, **bounds: Any) -> Backlog | None:
        asked.append(name)
        stop.set()
        return backlog_of(name, **bounds)

    monkeypatch.setattr(repo.census, "backlog", ask)
    insert()

    BacklogGauges(repo, [job_type, *(f"type-{uuid4().hex}" for _ in range(9))], stop=stop).count()

    assert len(asked) == 1
    assert shown("jobs_due", job_type) is None


def test_without_mongodb_figures_are_kept_for_a_minute(
    private_mongod: Callable[[], Mongod], monkeypatch: pytest.MonkeyPatch
) -> None:
    mongod, name = private_mongod(), f"type-{uuid4().hex}"
    repo = Repository.connect(StoreConfig(mongod.location, "chronos"))
    repo.ensure_indexes()
    gauges = BacklogGauges(repo, [name], stop=threading.Event())
    gauges.count()
    mongod.kill()

    with pytest.raises(StoreUnavailable):
        gauges.count()
    assert shown("jobs_due", name) == 0

    monkeypatch.setattr(backlog, "_KEPT", timedelta(0))
    with pytest.raises(StoreUnavailable):
        gauges.count()
    assert shown("jobs_due", name) is None
    repo.close()


def test_figures_that_cannot_be_counted_for_any_reason_are_kept_for_a_minute(
    repo: Repository, documents: Documents, job_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gauges = BacklogGauges(repo, [job_type], stop=threading.Event())
    gauges.count()
    documents.drop_index(DISPATCH)
    monkeypatch.setattr(backlog, "_KEPT", timedelta(0))

    with pytest.raises(OperationFailure):
        gauges.count()

    assert shown("jobs_due", job_type) is None


def test_a_template_that_should_have_fired_is_shown(
    repo: Repository, make_reaper: Callable[..., Reaper]
) -> None:
    now = repo.clock.now()
    template = a_template(scheduled_at=now - HOUR)
    repo.jobs.insert([template])

    # It has no executors to be patient with.
    reaper = make_reaper(claim_timeout=timedelta(milliseconds=3))

    reaper.run_once(now)
    assert REGISTRY.get_sample_value("templates_overdue_seconds") == HOUR.total_seconds()

    repo.interventions.cancel(template.id, now=now)
    reaper.run_once(now)
    assert REGISTRY.get_sample_value("templates_overdue_seconds") == 0


@pytest.mark.parametrize("index", [DISPATCH, TEMPLATES_DUE])
def test_a_step_that_fails_by_anything_but_an_outage_is_counted(
    index: str,
    repo: Repository,
    documents: Documents,
    start_scheduler: Callable[..., Scheduler],
) -> None:
    """As after a restore without indexes: the role lives, and its servers answer."""
    scheduler = start_scheduler()
    wait_for(lambda: scheduler.term)
    before = REGISTRY.get_sample_value("step_errors_total") or 0

    documents.drop_index(index)

    wait_for(lambda: (REGISTRY.get_sample_value("step_errors_total") or 0) > before + 1)
