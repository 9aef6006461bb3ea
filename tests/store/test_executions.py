"""Each attempt is recorded once, says what the job's history says, and is found by an index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any, Final
from uuid import uuid4

import pytest
from bson import ObjectId
from pymongo import MongoClient

from chronos_site.config import StoreConfig
from devstack.mongo import Mongod
from jobs import attempts
from jobs.executions import Execution, execution_id, execution_of
from jobs.lifecycle import (
    Attempt,
    Finish,
    Job,
    Outcome,
    Response,
    Status,
    job_id_for,
)
from jobs.repository import Repository
from jobs.repository.executions import Place, Wanted
from tests.builders import NOW, a_job
from tests.store.conftest import Documents
from tests.store.plans import Explainer, Plan, Recorder

SECOND: Final = timedelta(seconds=1)
LATER: Final = NOW + timedelta(minutes=1)


def running(**fields: Any) -> Job:
    """A running job whose lease has ended."""
    held = {"claim_id": "c1", "claimed_by": "e1", "started_at": NOW, "lease_until": NOW - SECOND}
    return a_job(**{"status": Status.RUNNING} | held | fields)


def completed(job: Job) -> Finish:
    return attempts.completed(job, started_at=NOW, finished_at=NOW + SECOND)


def lost(job: Job) -> Finish:
    return attempts.failed(
        job, error="lost", outcome=Outcome.LOST, started_at=NOW, finished_at=LATER, random=0.0
    )


def finish(repo: Repository, jobs: Sequence[Job]) -> int:
    """What an executor does at the end of attempts."""
    finishes = [completed(job) for job in jobs]
    repo.executions.record(
        [execution_of(job, end) for job, end in zip(jobs, finishes, strict=True)]
    )
    return repo.claims.finish(finishes, now=NOW)


def recorded(repo: Repository, job: Job) -> list[Outcome]:
    page, _ = repo.executions.page(Wanted(job_id=job.id), limit=100)
    return [execution.attempt.outcome for execution in page]


def an_execution(job_id: ObjectId | None = None, **fields: Any) -> Execution:
    job_id = job_id or ObjectId()
    attempt = {
        "number": 1,
        "executor": "e1",
        "started_at": NOW,
        "finished_at": NOW,
        "outcome": Outcome.COMPLETED,
    }
    attempt.update({name: fields.pop(name) for name in list(fields) if name in attempt})
    return Execution(
        **{
            "id": execution_id(job_id, uuid4().hex[:16]),
            "job_id": job_id,
            "tenant_id": "tenant-a",
            "job_type": "noop",
            "attempt": Attempt(**attempt),  # type: ignore[arg-type]
            **fields,
        }
    )


def test_an_execution_keeps_everything_about_its_attempt(repo: Repository) -> None:
    attempt = Attempt(
        3, "e1", NOW, LATER, Outcome.FAILED, "503 from x", "HttpError", Response(503, "<html>")
    )
    execution = replace(
        an_execution(), attempt=attempt, template_id=job_id_for("t"), definition="invoice"
    )

    repo.executions.record([execution])

    assert repo.executions.find(execution.id) == execution
    [listed], _ = repo.executions.page(Wanted(tenant_id="tenant-a"), limit=1)
    assert listed == replace(execution, attempt=replace(attempt, response=Response(503, "")))
    assert repo.executions.find("nobody's") is None


def test_recording_again_changes_nothing(repo: Repository) -> None:
    first, second = an_execution(), an_execution()
    repo.executions.record([first])

    repo.executions.record([replace(first, tenant_id="another"), second])
    repo.executions.record([])

    assert repo.executions.find(first.id) == first
    assert repo.executions.find(second.id) == second


def test_an_attempt_keeps_what_it_had_waited_for(repo: Repository) -> None:
    queued_at = NOW - 2 * SECOND
    waiting = a_job(status=Status.QUEUED, scheduled_at=NOW - 3 * SECOND, queued_at=queued_at)
    repo.jobs.insert([waiting])
    [job] = repo.claims.claim(
        [waiting.id], owner="e1", claim_id="c1", lease=SECOND, now=NOW, start=True
    )
    execution = execution_of(job, completed(job))

    repo.executions.record([execution])

    assert repo.executions.find(execution.id) == execution
    assert (execution.due_at, execution.queued_at, execution.claimed_at) == (
        NOW - 3 * SECOND,
        queued_at,
        NOW,
    )


def test_an_executor_that_dies_before_the_end_is_written_lost_the_attempt(repo: Repository) -> None:
    job = running()
    repo.jobs.insert([job])
    repo.executions.record([execution_of(job, completed(job))])

    assert repo.recovery.take_back([lost(job)], now=LATER) == 1

    assert recorded(repo, job) == [Outcome.LOST]
    assert [attempt.outcome for attempt in repo.jobs.get(job.id).history] == [Outcome.LOST]


def test_an_executor_that_comes_late_overwrites_nothing(repo: Repository) -> None:
    reaped, cancelled = running(), running()
    repo.jobs.insert([reaped, cancelled])
    repo.recovery.take_back([lost(reaped)], now=LATER)
    repo.interventions.cancel(cancelled.id, now=LATER)

    assert finish(repo, [reaped, cancelled]) == 0

    assert recorded(repo, reaped) == [Outcome.LOST]
    assert recorded(repo, cancelled) == [Outcome.CANCELLED]


def test_a_reaper_that_comes_late_overwrites_nothing(repo: Repository) -> None:
    job = running()
    repo.jobs.insert([job])
    finish(repo, [job])

    assert repo.recovery.take_back([lost(job)], now=LATER) == 0

    assert recorded(repo, job) == [Outcome.COMPLETED]


def test_cancelling_records_the_attempt_that_it_cuts_short(repo: Repository) -> None:
    job = running(attempts=1, template_id=job_id_for("t"), definition="invoice")
    repo.jobs.insert([job])
    # Its executor has come as far as the record of the end.
    repo.executions.record([execution_of(job, completed(job))])

    repo.interventions.cancel(job.id, now=LATER)

    assert repo.executions.find(execution_id(job.id, "c1")) == Execution(
        id=execution_id(job.id, "c1"),
        job_id=job.id,
        tenant_id=job.tenant_id,
        job_type=job.job_type,
        template_id=job.template_id,
        definition="invoice",
        due_at=job.scheduled_at,
        attempt=Attempt(2, "e1", NOW, LATER, Outcome.CANCELLED),
    )
    assert finish(repo, [job]) == 0


@pytest.mark.parametrize("status", [Status.PENDING, Status.QUEUED, Status.CLAIMED, Status.DLQ])
def test_cancelling_what_does_not_run_records_nothing(repo: Repository, status: Status) -> None:
    job = running(status=status)
    repo.jobs.insert([job])

    moved = repo.interventions.cancel(job.id, now=LATER)

    assert (moved is None) == (status is Status.DLQ)
    assert recorded(repo, job) == []


@pytest.mark.parametrize("rival", ["reaper", "person"])
def test_taking_a_claim_away_and_its_record_happen_together_or_not_at_all(
    repo: Repository, monkeypatch: pytest.MonkeyPatch, rival: str
) -> None:
    job = running()
    repo.jobs.insert([job])

    def take_away() -> None:
        if rival == "reaper":
            repo.recovery.take_back([lost(job)], now=LATER)
        else:
            repo.interventions.cancel(job.id, now=LATER)

    class Crash(Exception):
        pass

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(repo.executions, "replace", crash)
        with pytest.raises(Crash):
            take_away()

    assert repo.jobs.get(job.id) == job
    assert recorded(repo, job) == []
    take_away()
    assert len(recorded(repo, job)) == 1


def test_however_executor_reaper_and_person_race_the_record_says_what_the_job_says(
    repo: Repository, store_config: StoreConfig
) -> None:
    jobs = [running(max_attempts=9) for _ in range(120)]
    repo.jobs.insert(jobs)
    rivals = [Repository.connect(store_config) for _ in range(3)]
    everybody = threading.Barrier(3)

    def executor() -> None:
        everybody.wait()
        for number in range(0, len(jobs), 8):
            finish(rivals[0], jobs[number : number + 8])

    def reaper() -> None:
        everybody.wait()
        for number in range(len(jobs) - 4, -1, -4):
            rivals[1].recovery.take_back(
                [lost(job) for job in jobs[number : number + 4]], now=LATER
            )

    def person() -> None:
        everybody.wait()
        for job in sorted(jobs, key=lambda job: job.id)[::3]:
            rivals[2].interventions.cancel(job.id, now=LATER)

    with ThreadPoolExecutor(3) as threads:
        for future in [threads.submit(act) for act in (executor, reaper, person)]:
            future.result()
    for rival in rivals:
        rival.close()

    said = {}
    for job in map(repo.jobs.get, (job.id for job in jobs)):
        outcomes = [attempt.outcome for attempt in job.history]
        # One that was taken back may have been cancelled then, as it was pending.
        said[job.id] = outcomes or [Outcome.CANCELLED]
    assert {job.id: recorded(repo, job) for job in jobs} == said
    assert len({outcome for outcomes in said.values() for outcome in outcomes}) == 3


def test_executions_stay_when_history_forgets_and_when_the_job_is_redriven(
    repo: Repository,
) -> None:
    job = running(max_attempts=99)
    repo.jobs.insert([job])
    for number in range(25):
        held = replace(job, claim_id=f"c{number}", attempts=number, status=Status.RUNNING)
        repo.jobs._jobs.update_one(
            {"_id": job.id}, {"$set": {"claimId": held.claim_id, "status": "running"}}
        )
        end = lost(held)
        repo.executions.record([execution_of(held, end)])
        assert repo.claims.finish([end], now=NOW) == 1
    repo.interventions.cancel(job.id, now=NOW)
    repo.interventions.redrive(job.id, due_at=NOW, now=NOW)

    assert len(repo.jobs.get(job.id).history) == 20
    page, rest = repo.executions.page(Wanted(job_id=job.id), limit=100)
    assert sorted(execution.attempt.number for execution in page) == list(range(1, 26))
    assert rest is None


def test_a_retention_says_when_mongodb_deletes(
    store_config: StoreConfig, documents: Documents
) -> None:
    kept = replace(store_config, retention_executions=timedelta(days=3))
    repository = Repository.connect(kept)
    repository.ensure_indexes()
    execution = an_execution(finished_at=LATER)

    repository.executions.record([execution])

    stored = documents.database["executions"].find_one({"_id": execution.id})
    assert stored is not None
    assert stored["expiresAt"] == LATER + timedelta(days=3)
    index = documents.database["executions"].index_information()["expiry"]
    assert index["expireAfterSeconds"] == 0
    repository.close()


def pages(repo: Repository, wanted: Wanted, limit: int) -> Iterator[list[str]]:
    """The ids of one page after another, to the last."""
    place: Place | None = None
    while True:
        page, place = repo.executions.page(wanted, limit=limit, before=place)
        yield [execution.id for execution in page]
        if place is None:
            return


def test_the_newest_come_first_and_each_once_also_at_one_instant(repo: Repository) -> None:
    executions = [an_execution(started_at=NOW + number // 7 * SECOND) for number in range(25)]
    repo.executions.record([*executions, an_execution(tenant_id="tenant-b")])

    seen = list(pages(repo, Wanted(tenant_id="tenant-a"), limit=4))

    assert [len(page) for page in seen] == [4, 4, 4, 4, 4, 4, 1]
    newest_first = sorted(
        executions, key=lambda each: (each.attempt.started_at, each.id), reverse=True
    )
    assert list(chain(*seen)) == [execution.id for execution in newest_first]


def test_filters_narrow_the_list(repo: Repository) -> None:
    t, job_id = job_id_for("t"), job_id_for("j")
    executions = {
        "plain": an_execution(),
        "run": an_execution(template_id=t),
        "defined": an_execution(definition="invoice"),
        "failed": an_execution(outcome=Outcome.FAILED, started_at=NOW + SECOND),
        "slow": an_execution(job_type="slow", started_at=NOW + 2 * SECOND),
        "first": an_execution(job_id, template_id=t, outcome=Outcome.FAILED),
        "second": an_execution(job_id, template_id=t, started_at=NOW + 3 * SECOND),
        "another": an_execution(tenant_id="tenant-b", definition="invoice"),
    }
    repo.executions.record(list(executions.values()))
    names = {execution.id: name for name, execution in executions.items()}

    def found(**wanted: Any) -> set[str]:
        one_by_one = list(pages(repo, Wanted(**wanted), limit=1))
        assert all(len(page) == 1 for page in one_by_one) or one_by_one == [[]]
        return {names[each] for page in one_by_one for each in page}

    a: dict[str, Any] = {"tenant_id": "tenant-a"}
    assert found(**a) == set(names.values()) - {"another"}
    assert found(**a, template_id=t) == {"run", "first", "second"}
    assert found(**a, definition="invoice") == {"defined"}
    assert found(**a, outcome=Outcome.FAILED) == {"failed", "first"}
    assert found(**a, job_type="slow") == {"slow"}
    assert found(job_id=job_id) == found(**a, job_id=job_id) == {"first", "second"}
    assert found(tenant_id="tenant-b", job_id=job_id) == set()
    assert found(**a, since=NOW + SECOND) == {"failed", "slow", "second"}
    assert found(**a, since=NOW + SECOND, until=NOW + 3 * SECOND) == {"failed", "slow"}
    assert found(**a, template_id=t, outcome=Outcome.FAILED, until=NOW + SECOND) == {"first"}


PlanOf = Callable[..., Plan]
STORED: Final = 100_000
TENANTS: Final = 5


@pytest.fixture(scope="module")
def plan_of(mongo_server: Mongod) -> Iterator[PlanOf]:
    """How a page is found among 100,000 executions."""
    config = StoreConfig(mongo_server.location, f"test_{uuid4().hex}")
    recorder = Recorder()
    client: MongoClient[dict[str, Any]] = MongoClient(
        config.uri, tz_aware=True, event_listeners=[recorder]
    )
    repo = Repository(client, config)
    repo.ensure_indexes()

    def executions() -> Iterator[Execution]:
        for number in range(STORED):
            of_job = job_id_for("j") if number % 1_000 == 0 else None
            yield an_execution(
                of_job,
                tenant_id=f"tenant-{number % TENANTS}",
                started_at=NOW + number * SECOND,
                **({"template_id": job_id_for(f"t{number % 7}")} if number % 2 else {}),
                **({"definition": f"d{number % 11}"} if number % 3 else {}),
            )

    stream = executions()
    while batch := list(islice(stream, 10_000)):
        repo.executions.record(batch)
    explainer = Explainer(client, recorder, config.database)

    def plan_of(wanted: Wanted, before: Place | None = None) -> Plan:
        (plan,) = explainer.plans(lambda: repo.executions.page(wanted, limit=100, before=before))
        return plan

    yield plan_of
    client.drop_database(config.database)
    client.close()


LAST: Final[Place] = (NOW + STORED // 2 * SECOND, execution_id(job_id_for("j"), "c1"))
MIDDLE: Final[datetime] = NOW + STORED // 2 * SECOND


@pytest.mark.parametrize("before", [None, LAST], ids=["first page", "later page"])
@pytest.mark.parametrize(
    ("wanted", "most"),
    [
        (Wanted(tenant_id="tenant-0"), 101),
        (Wanted(tenant_id="tenant-0", since=MIDDLE - 1_000 * SECOND, until=MIDDLE), 101),
        (Wanted(tenant_id="tenant-1", template_id=job_id_for("t1")), TENANTS * 101),
        (Wanted(tenant_id="tenant-1", definition="d1"), 101),
        (Wanted(tenant_id="tenant-1", definition="d1", until=MIDDLE), 101),
        (Wanted(job_id=job_id_for("j")), 101),
        (Wanted(tenant_id="tenant-0", job_id=job_id_for("j")), 101),
    ],
    ids=str,
)
def test_a_list_looks_at_little_more_than_it_shows(
    plan_of: PlanOf, wanted: Wanted, most: int, before: Place | None
) -> None:
    plan = plan_of(wanted, before)

    assert plan.returned >= 10
    assert plan.keys <= most + 10
    assert plan.documents <= most + 1
    assert ("SORT" in plan.stages) == (wanted.job_id is not None)


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(tenant_id="tenant-0", outcome=Outcome.FAILED),
        Wanted(tenant_id="tenant-0", job_type="slow"),
    ],
    ids=str,
)
def test_what_no_index_knows_is_looked_for_among_the_tenants_own(
    plan_of: PlanOf, wanted: Wanted
) -> None:
    plan = plan_of(wanted)

    assert plan.returned == 0
    assert plan.documents == STORED // TENANTS
    assert not plan.stages & {"SORT", "COLLSCAN"}
