"""Cron firing: every occurrence becomes one run, whoever crashes or leads at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from pymongo.collection import Collection

from executor.executor import Executor
from jobs.errors import StoreUnavailable
from jobs.lifecycle import CatchUp, Job, Overlap, Status
from jobs.repository import Repository
from jobs.spawn import unix_nanoseconds
from scheduler.firing import CATCH_UP_LIMIT, Firing
from scheduler.scheduler import Scheduler
from tests.builders import NOW, a_template
from tests.roles.conftest import LONG_TICK
from tests.waiting import wait_for

MINUTE = timedelta(minutes=1)
GRACE = MINUTE

Template = Callable[..., Job]
Runs = Callable[[Job], list[Job]]


@pytest.fixture
def firing(repo: Repository) -> Firing:
    return Firing(repo, batch=100, grace=GRACE)


@pytest.fixture
def template(repo: Repository, job_type: str) -> Template:
    """Stores a template that fires every minute and is due at NOW."""

    def insert(**fields: Any) -> Job:
        made = a_template(**{"job_type": job_type, "scheduled_at": NOW} | fields)
        assert repo.jobs.insert([made]) == [True]
        return made

    return insert


@pytest.fixture
def runs(repo: Repository) -> Runs:
    """The runs of a template, the earliest occurrence first."""

    def find(template: Job) -> list[Job]:
        page = repo.jobs.page(template.tenant_id, limit=1000, template_id=template.id)
        jobs = [job for job in page.jobs if isinstance(job, Job)]
        return sorted(jobs, key=lambda run: run.scheduled_at)

    return find


def counted(name: str) -> float:
    return REGISTRY.get_sample_value(f"scheduler_cron_{name}_total") or 0


def test_a_due_occurrence_becomes_a_run(
    firing: Firing, repo: Repository, template: Template, runs: Runs
) -> None:
    made = template(
        payload='{"a":1}',
        priority=7,
        max_attempts=9,
        tags=("nightly",),
        retry={"strategy": "fixed", "base": 5},
        timeout_seconds=30,
    )
    before = counted("spawned")

    assert firing.step(NOW + timedelta(seconds=1)) is False

    [run] = runs(made)
    assert run.idempotency_key == f"{made.idempotency_key}-run-{unix_nanoseconds(NOW)}"
    assert run.status is Status.PENDING
    assert run.scheduled_at == run.occurrence_at == NOW
    assert run.template_id == made.id
    assert run.cron is None
    copied = ("tenant_id", "job_type", "payload", "priority", "max_attempts", "tags", "retry")
    for name in (*copied, "timeout_seconds"):
        assert getattr(run, name) == getattr(made, name)
    after = repo.jobs.get(made.id)
    assert after.status is Status.PENDING
    assert after.scheduled_at == NOW + MINUTE
    assert (after.missed, after.skipped) == (0, 0)
    assert counted("spawned") == before + 1


def test_what_is_not_due_paused_or_cancelled_does_not_fire(
    firing: Firing, repo: Repository, template: Template, runs: Runs
) -> None:
    made = [
        template(scheduled_at=NOW + timedelta(milliseconds=1)),
        template(status=Status.PAUSED),
        template(status=Status.CANCELLED),
    ]

    assert firing.step(NOW) is False

    assert [runs(each) for each in made] == [[], [], []]
    assert [repo.jobs.get(each.id) for each in made] == made


@pytest.mark.parametrize(
    ("catch_up", "fired", "missed"),
    [
        (CatchUp.ONE, [NOW], 10),
        (CatchUp.ALL, [NOW + n * MINUTE for n in range(11)], 0),
        (CatchUp.NONE, [NOW + 10 * MINUTE], 10),
    ],
)
def test_missed_occurrences_are_made_up_for_as_asked_and_counted(
    firing: Firing,
    repo: Repository,
    template: Template,
    runs: Runs,
    catch_up: CatchUp,
    fired: list[datetime],
    missed: int,
) -> None:
    made = template(catch_up=catch_up)
    before = counted("missed")

    firing.step(NOW + 10 * MINUTE)

    assert [run.occurrence_at for run in runs(made)] == fired
    after = repo.jobs.get(made.id)
    assert after.scheduled_at == NOW + 11 * MINUTE
    assert after.missed == missed
    assert counted("missed") == before + missed


def test_a_long_gap_is_made_up_for_in_steps(firing: Firing, template: Template, runs: Runs) -> None:
    made = template(catch_up=CatchUp.ALL)
    now = NOW + (CATCH_UP_LIMIT + 9) * MINUTE

    assert firing.step(now) is True
    assert len(runs(made)) == CATCH_UP_LIMIT
    assert firing.step(now) is False
    assert len(runs(made)) == CATCH_UP_LIMIT + 10


def test_more_templates_than_a_batch_are_fired_in_steps(
    repo: Repository, template: Template, runs: Runs
) -> None:
    firing = Firing(repo, batch=2, grace=GRACE)
    made = [template() for _ in range(5)]

    steps = [firing.step(NOW), firing.step(NOW), firing.step(NOW)]

    assert steps == [True, True, False]
    assert [len(runs(each)) for each in made] == [1] * 5


def test_a_step_takes_no_longer_than_others_can_wait(
    firing: Firing, template: Template, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when thousands of missed occurrences of many templates are counted after an outage."""
    made = [template(scheduled_at=NOW + n * timedelta(seconds=1)) for n in range(3)]
    monkeypatch.setattr("scheduler.firing._STEP_SECONDS", 0)

    steps = [firing.step(NOW + MINUTE) for _ in range(3)]

    assert steps == [True, True, False]
    assert [len(runs(each)) for each in made] == [1, 1, 1]


def test_a_step_makes_up_for_no_more_than_a_batch_of_runs(
    repo: Repository, template: Template, runs: Runs
) -> None:
    firing = Firing(repo, batch=10, grace=GRACE)
    made = [template(catch_up=CatchUp.ALL) for _ in range(3)]

    steps = [firing.step(NOW + 19 * MINUTE) for _ in range(3)]

    assert steps == [True, True, False]
    assert [len(runs(each)) for each in made] == [20, 20, 20]


def test_overlap_skip_spawns_nothing_while_a_run_is_live(
    firing: Firing, repo: Repository, template: Template, runs: Runs
) -> None:
    made = template(overlap=Overlap.SKIP)
    before = counted("skipped")
    firing.step(NOW)
    [run] = runs(made)

    firing.step(NOW + MINUTE)
    assert runs(made) == [run]
    assert repo.jobs.get(made.id).skipped == 1

    assert repo.interventions.cancel(run.id, now=NOW)
    firing.step(NOW + 2 * MINUTE)
    assert [each.occurrence_at for each in runs(made)] == [NOW, NOW + 2 * MINUTE]
    assert repo.jobs.get(made.id).skipped == 1
    assert counted("skipped") == before + 1


def test_overlap_skip_makes_up_for_one_occurrence_at_a_time(
    firing: Firing, repo: Repository, template: Template, runs: Runs
) -> None:
    made = template(overlap=Overlap.SKIP, catch_up=CatchUp.ALL)

    firing.step(NOW + 3 * MINUTE)

    assert [run.occurrence_at for run in runs(made)] == [NOW]
    assert repo.jobs.get(made.id).skipped == 3


@pytest.mark.parametrize("catch_up", list(CatchUp))
def test_a_crash_between_the_run_and_the_template_gives_one_run(
    firing: Firing,
    repo: Repository,
    template: Template,
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
    catch_up: CatchUp,
) -> None:
    made = template(catch_up=catch_up)

    def crash(*_: object, **__: object) -> int:
        raise StoreUnavailable("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(repo.templates, "advance", crash)
        with pytest.raises(StoreUnavailable):
            firing.step(NOW)
    assert len(runs(made)) == 1
    assert repo.jobs.get(made.id).scheduled_at == NOW
    before = counted("duplicates")

    # Whoever leads next, a little later.
    Firing(repo, batch=100, grace=GRACE).step(NOW + timedelta(seconds=30))

    assert [run.occurrence_at for run in runs(made)] == [NOW]
    assert repo.jobs.get(made.id).scheduled_at == NOW + MINUTE
    assert counted("duplicates") == before + 1


def test_leaders_that_fire_at_once_give_one_run_per_occurrence(
    repo: Repository, template: Template, runs: Runs
) -> None:
    made = [template(catch_up=catch_up) for catch_up in CatchUp for _ in range(10)]
    together = threading.Barrier(4)

    def lead() -> None:
        firing = Firing(repo, batch=100, grace=GRACE)
        for minutes in range(0, 15, 3):
            together.wait(60)
            firing.step(NOW + minutes * MINUTE)

    leaders = [threading.Thread(target=lead) for _ in range(4)]
    for leader in leaders:
        leader.start()
    for leader in leaders:
        leader.join()

    for each in made:
        occurrences = [run.occurrence_at for run in runs(each)]
        assert len(set(occurrences)) == len(occurrences)
        after = repo.jobs.get(each.id)
        assert after.scheduled_at == NOW + 13 * MINUTE
        # 13 occurrences, each either run or counted as missed.
        assert len(occurrences) + (after.missed or 0) == 13


def test_a_template_that_can_no_longer_be_parsed_is_a_dead_letter(
    firing: Firing, repo: Repository, template: Template, runs: Runs
) -> None:
    broken = [template(cron="every day"), template(timezone="Europe/Atlantis")]
    fine = template()
    before = counted("invalid")

    firing.step(NOW)

    for each, reason in zip(broken, ("five fields", "Europe/Atlantis"), strict=True):
        dead = repo.jobs.get(each.id)
        assert dead.status is Status.DLQ
        assert reason in (dead.last_error or "")
        assert runs(each) == []
    assert len(runs(fine)) == 1
    assert counted("invalid") == before + 2


@pytest.mark.parametrize(
    "change",
    [
        {"$set": {"cron": 5}},
        {"$set": {"catchUp": "sometimes"}},
        {"$set": {"tenantId": None}},
        {"$set": {"maxAttempts": "three"}},
        {"$unset": {"jobType": ""}},
        {"$set": {"missed": "many"}},
        {"$set": {"payload": {"an": "object"}}},
        {"$set": {"tags": 7}},
    ],
    ids=str,
)
def test_a_template_edited_into_nonsense_stops_nobody(
    firing: Firing,
    repo: Repository,
    documents: Collection[dict[str, Any]],
    template: Template,
    runs: Runs,
    change: dict[str, Any],
) -> None:
    broken, fine = template(scheduled_at=NOW - MINUTE), template()
    documents.update_one({"_id": broken.id}, change)

    firing.step(NOW)
    firing.step(NOW)

    assert len(runs(fine)) == 1
    document = documents.find_one({"_id": broken.id})
    assert document is not None
    assert document["status"] == "dlq"
    assert document["lastError"]


def test_a_template_fires_when_it_is_due_and_its_run_is_run(
    start_scheduler: Callable[..., Scheduler],
    start_executor: Callable[..., Executor],
    repo: Repository,
    template: Template,
    runs: Runs,
    wait_until_all: Callable[..., list[Job]],
    insert: Callable[..., list[Job]],
) -> None:
    start_executor(lambda context: None)
    start_scheduler(tick=LONG_TICK)
    wait_until_all(insert(1), Status.COMPLETED)

    for delay in (0, 300):
        due_at = repo.clock.now() + timedelta(milliseconds=delay)
        # Its next occurrence is years away, so there is one run, at whatever second this goes on.
        made = template(cron="0 0 29 2 *", scheduled_at=due_at)
        [run] = wait_for(lambda made=made: runs(made))  # type: ignore[misc]
        [run] = wait_until_all([run], Status.COMPLETED)
        assert run.started_at is not None
        assert timedelta(0) <= run.started_at - due_at < LONG_TICK / 4


def test_a_template_whose_run_cannot_be_stored_stops_no_other(
    firing: Firing, template: Template, runs: Runs, repo: Repository, documents: Collection[Any]
) -> None:
    good, bad = template(), template()
    # The run's key is longer than the template's, and MongoDB takes 16 MiB at the most.
    payload = "x" * (16 * 1024 * 1024 - 700)
    documents.update_one({"_id": bad.id}, {"$set": {"payload": payload}})

    firing.step(NOW)

    assert len(runs(good)) == 1
    assert repo.jobs.get(good.id).scheduled_at == NOW + MINUTE
    assert repo.templates.due(now=NOW, limit=9) == []
