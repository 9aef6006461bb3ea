"""Every hot query finds its jobs by an index: at 200,000 stored jobs it looks at few others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from itertools import chain, islice
from itertools import count as counter
from typing import Any, Final
from uuid import uuid4

import pytest
from bson import ObjectId
from pymongo import MongoClient

from chronos_site.config import StoreConfig
from devstack.mongo import Mongod
from jobs import attempts
from jobs.bulk import Filter
from jobs.lifecycle import Job, Status, job_id_for, shard_of
from jobs.messages import shards_of
from jobs.repository import Repository, dead_letter_lists, job_lists, template_lists
from jobs.repository.documents import to_document
from jobs.repository.job_lists import COUNTED, LOOKED_AT, Tab, Wanted
from jobs.repository.looks import Listed
from jobs.repository.templates import Advance
from tests.builders import NOW, a_job, a_template
from tests.store.plans import Explainer, Plan, Recorder

HOUR: Final = timedelta(hours=1)
MILLISECOND: Final = timedelta(milliseconds=1)
TYPES: Final = ("noop", "slow", "flaky", "log-message")
STORED: Final = 200_000
DUE: Final = 5_000
DUE_OF_A_TYPE: Final = DUE // len(TYPES)
IN_FLIGHT: Final = 1_500
DUE_TEMPLATES: Final = 100
TEMPLATES: Final = 1_000
UNANNOUNCED: Final = 1_000
PRIORITIES: Final = {"noop": 10, "slow": 1_000, "flaky": 1, "log-message": 10}
"""Distinct priorities of the pending jobs of each type."""
BATCH: Final = 10_000
WORKERS: Final = 3


@dataclass(frozen=True)
class Store:
    """A large store, and the means to look at its plans."""

    repo: Repository
    explainer: Explainer

    def plans(self, call: Callable[[Repository], object]) -> list[Plan]:
        return self.explainer.plans(lambda: call(self.repo))

    def plan(self, call: Callable[[Repository], object]) -> Plan:
        (plan,) = self.plans(call)
        return plan


def documents() -> Iterator[dict[str, Any]]:
    """200,000 jobs and templates, most of them over or not yet due."""

    numbers = counter()

    def some(count: int, job: Job) -> Iterator[dict[str, Any]]:
        document = to_document(job)
        for _ in range(count):
            number = next(numbers)
            job_id = job_id_for(f"stored-{number}")
            yield document | {
                "_id": job_id,
                "shard": shard_of(job_id),
                "idempotencyKey": str(job_id),
                "tenantId": f"tenant-{number % 5}",
                "createdAt": NOW - number * MILLISECOND,
            }

    def pending(count: int, scheduled_at: datetime) -> Iterator[dict[str, Any]]:
        for number, document in enumerate(some(count, a_job())):
            job_type = TYPES[number % len(TYPES)]
            yield document | {
                "jobType": job_type,
                "priority": number // len(TYPES) % PRIORITIES[job_type],
                "scheduledAt": scheduled_at + number * MILLISECOND,
            }

    held: dict[str, Any] = {"claim_id": "c1", "queued_at": NOW - HOUR, "lease_until": NOW - HOUR}
    dead = a_job(status=Status.DLQ, finished_at=NOW - HOUR)
    template_id = job_id_for("t")
    return chain(
        pending(DUE, NOW - HOUR),
        pending(50_000, NOW + HOUR),
        some(135_500, a_job(status=Status.COMPLETED, template_id=template_id, finished_at=NOW)),
        some(4_000, a_job(status=Status.CANCELLED)),
        some(IN_FLIGHT // 3, a_job(status=Status.QUEUED, **held)),
        some(IN_FLIGHT // 3, a_job(status=Status.CLAIMED, **held)),
        some(IN_FLIGHT // 3, a_job(status=Status.RUNNING, template_id=template_id, **held)),
        some(UNANNOUNCED, dead),
        (document | {"dlqPublishedAt": NOW} for document in some(2_000, dead)),
        some(DUE_TEMPLATES, a_template(scheduled_at=NOW - HOUR)),
        some(TEMPLATES - DUE_TEMPLATES, a_template(scheduled_at=NOW + HOUR)),
    )


@pytest.fixture(scope="module")
def store(mongo_server: Mongod) -> Iterator[Store]:
    config = StoreConfig(mongo_server.location, f"test_{uuid4().hex}")
    recorder = Recorder()
    client: MongoClient[dict[str, Any]] = MongoClient(
        config.uri, tz_aware=True, event_listeners=[recorder]
    )
    collection = client[config.database]["jobs"]
    stream = documents()
    while batch := list(islice(stream, BATCH)):
        collection.insert_many(batch, ordered=False)
    assert collection.estimated_document_count() == STORED
    repo = Repository(client, config)
    repo.ensure_indexes()
    yield Store(repo, Explainer(client, recorder, config.database))
    client.drop_database(config.database)
    client.close()


def nobody() -> ObjectId:
    return job_id_for("nobody's")


@pytest.mark.parametrize("job_type", TYPES)
@pytest.mark.parametrize("limit", [1, 100, 1_000, 10_000])
def test_the_claims_search_looks_at_little_more_than_it_returns(
    store: Store, job_type: str, limit: int
) -> None:
    plan = store.plan(lambda repo: repo.dispatch.due(job_type, now=NOW, limit=limit))

    assert plan.returned == min(limit, DUE_OF_A_TYPE)
    assert plan.keys <= 2 * plan.returned + PRIORITIES[job_type]
    assert plan.documents <= 2 * plan.returned
    assert plan.indexes == {"dispatch"}
    assert not plan.stages & {"SORT", "COLLSCAN"}


@pytest.mark.parametrize("job_type", TYPES)
@pytest.mark.parametrize("limit", [100, 10_000])
@pytest.mark.parametrize("worker", range(WORKERS))
def test_a_fan_out_worker_fetches_nothing_that_others_own(
    store: Store, job_type: str, limit: int, worker: int
) -> None:
    shards = frozenset(shards_of(worker, WORKERS))

    plan = store.plan(lambda repo: repo.dispatch.due(job_type, now=NOW, limit=limit, shards=shards))

    assert plan.documents == plan.returned > 0
    # Jobs fall to the shards at random, so a worker may meet a few more of others than of its own.
    assert plan.keys <= 1.2 * WORKERS * plan.returned + PRIORITIES[job_type]
    assert plan.indexes == {"dispatch"}
    assert not plan.stages & {"SORT", "SORT_MERGE", "COLLSCAN"}


def test_fan_out_workers_find_all_that_is_due(store: Store) -> None:
    """The ranges of shards leave nothing out."""
    found = [
        job.id
        for worker in range(WORKERS)
        for job in store.repo.dispatch.due(
            "slow", now=NOW, limit=DUE, shards=shards_of(worker, WORKERS)
        )
    ]

    assert len(found) == len(set(found)) == DUE_OF_A_TYPE


@pytest.mark.parametrize("job_type", TYPES)
def test_the_look_ahead_skips_what_is_due_and_what_is_far_off(store: Store, job_type: str) -> None:
    plan = store.plan(
        lambda repo: repo.dispatch.next_due(job_type, after=NOW, until=NOW + HOUR + 4 * MILLISECOND)
    )

    assert plan.returned >= 1
    assert plan.keys <= 2 * (plan.returned + PRIORITIES[job_type])
    assert plan.indexes == {"dispatch"}


LAST_PAGE: Final = (NOW - HOUR, nobody())
IDS: Final = [ObjectId() for _ in range(500)]
HELD: Final = [(job_id, "c1") for job_id in IDS]
QUERIES: Final[dict[str, tuple[Callable[[Repository], object], int]]] = {
    "in flight": (lambda repo: repo.dispatch.in_flight(), IN_FLIGHT),
    "lost messages": (
        lambda repo: repo.recovery.requeue_lost_messages(queued_before=NOW - 2 * HOUR, now=NOW),
        IN_FLIGHT,
    ),
    "unstarted claims": (
        lambda repo: repo.recovery.reclaim_unstarted(now=NOW - 2 * HOUR),
        IN_FLIGHT,
    ),
    "expired leases": (lambda repo: repo.recovery.expired(now=NOW, limit=1_000), IN_FLIGHT),
    "due templates": (lambda repo: repo.templates.due(now=NOW, limit=1_000), DUE_TEMPLATES),
    "some due templates": (lambda repo: repo.templates.due(now=NOW, limit=10), 10),
    "next template": (lambda repo: repo.templates.next_due(), 1),
    "pauses that ended": (
        lambda repo: repo.template_changes.ended_pauses(now=NOW, limit=10),
        1,
    ),
    "next end of a pause": (lambda repo: repo.template_changes.next_end(), 1),
    "page of templates": (lambda repo: repo.template_lists.page(None, limit=100), 101),
    "page of a tenant's templates": (
        lambda repo: repo.template_lists.page({"tenant-0"}, limit=100),
        101,
    ),
    "count of a minute": (
        lambda repo: repo.dispatch.count_due("noop", since=NOW - HOUR, until=NOW, limit=1_000),
        1_000,
    ),
    "newest bucket": (lambda repo: repo.buckets.newest(until=NOW), 1),
    "live runs": (lambda repo: repo.templates.with_live_runs([job_id_for("t")]), IN_FLIGHT // 3),
    "unannounced dead letters": (
        lambda repo: repo.dead_letters.unannounced(before=NOW, limit=1_000),
        UNANNOUNCED,
    ),
    "first page": (lambda repo: repo.jobs.page("tenant-0", limit=100), 101),
    "later page": (lambda repo: repo.jobs.page("tenant-0", limit=100, before=LAST_PAGE), 101),
    "first page of dead letters": (
        lambda repo: repo.jobs.page("tenant-0", limit=100, status=Status.DLQ),
        101,
    ),
    "page of runs": (
        lambda repo: repo.jobs.page("tenant-0", limit=100, template_id=job_id_for("t")),
        5 * 101,
    ),
    "queue": (lambda repo: repo.dispatch.queue(IDS, claim_id="q", now=NOW), len(IDS)),
    "release": (lambda repo: repo.dispatch.release(IDS, claim_id="q", now=NOW), len(IDS)),
    "claim": (
        lambda repo: repo.claims.claim(IDS, owner="e", claim_id="c", lease=HOUR, now=NOW),
        len(IDS),
    ),
    "start": (lambda repo: repo.claims.start(HELD, now=NOW), len(IDS)),
    "extend": (lambda repo: repo.claims.extend(HELD, until=NOW), len(IDS)),
    "lost": (lambda repo: repo.claims.lost(HELD), len(IDS)),
    "hand back": (lambda repo: repo.claims.hand_back(HELD, now=NOW), len(IDS)),
    "finish": (
        lambda repo: repo.claims.finish(
            [attempts.completed(a_job(), started_at=NOW, finished_at=NOW) for _ in range(3)],
            now=NOW,
        ),
        3,
    ),
    "take back": (
        lambda repo: repo.recovery.take_back(
            [attempts.completed(a_job(), started_at=NOW, finished_at=NOW)], now=NOW
        ),
        1,
    ),
    "advance": (lambda repo: repo.templates.advance([Advance(nobody(), NOW, NOW)], now=NOW), 1),
    "mark announced": (lambda repo: repo.dead_letters.mark_announced(IDS, now=NOW), len(IDS)),
    "find": (lambda repo: repo.jobs.find(nobody()), 1),
    "cancel": (lambda repo: repo.interventions.cancel(nobody(), now=NOW), 1),
    "counts": (lambda repo: repo.census.by_status(limit=1_000), IN_FLIGHT),
    "types with pending jobs": (lambda repo: repo.census.types_with_pending(limit=1_000), 1),
    "backlog": (lambda repo: repo.census.backlog("noop", now=NOW, limit=10_000), DUE_OF_A_TYPE),
    "backlogs of the overview": (
        lambda repo: repo.overview.backlogs(now=NOW, tenants=None),
        100,
    ),
    "large backlog": (lambda repo: repo.census.backlog("slow", now=NOW, limit=100), 100),
}
"""Calls that change nothing here, and how many keys each may examine besides one per seek."""


@pytest.mark.parametrize("name", QUERIES)
def test_a_hot_query_reads_an_index_and_little_of_it(store: Store, name: str) -> None:
    call, most = QUERIES[name]

    for plan in store.plans(call):
        assert not plan.stages & {"SORT", "COLLSCAN"}
        assert plan.keys <= 2 * most + 1
        assert plan.documents <= most
        assert plan.stages & {"IXSCAN", "IDHACK", "COUNT_SCAN"}


@pytest.mark.parametrize(
    "filters",
    [
        {"status": Status.COMPLETED},
        {"status": Status.PAUSED},
        {"job_type": "slow"},
        {"tag": "none"},
        {"status": Status.DLQ, "before": LAST_PAGE},
        {"template_id": job_id_for("t"), "before": LAST_PAGE},
    ],
    ids=str,
)
def test_no_filter_makes_a_list_sort_or_read_other_tenants_jobs(
    store: Store, filters: dict[str, Any]
) -> None:
    plan = store.plan(lambda repo: repo.jobs.page("tenant-0", limit=100, **filters))

    assert not plan.stages & {"SORT", "COLLSCAN"}
    assert plan.documents <= STORED // 5 or "template_runs" in plan.indexes


@pytest.mark.parametrize("tenants", [None, ["tenant-1"]])
def test_groups_of_dead_letters_are_counted_without_a_look_at_any(
    store: Store, tenants: list[str] | None
) -> None:
    plan = store.plan(lambda repo: repo.dead_letter_lists.groups(Filter(), tenants))

    assert plan.documents == 0
    assert plan.keys <= 3_000 // (1 if tenants is None else 5) + 10
    assert plan.indexes == {"dead_letters" if tenants is None else "dead_letters_of_tenant"}


@pytest.mark.parametrize(
    ("wanted", "most"), [(Filter(), 51), (Filter(job_type="noop", until=NOW), 3_000 // 5)]
)
def test_a_page_of_dead_letters_looks_at_those_alone_that_it_shows(
    store: Store, wanted: Filter, most: int
) -> None:
    plans = store.plans(lambda repo: repo.dead_letter_lists.page(wanted, ["tenant-1"], limit=50))

    # Which they are is said by the index alone.
    assert [plan.documents for plan in plans] == [0, 50]
    assert plans[0].keys <= most + 1
    assert not any("SORT" in plan.stages for plan in plans)


@pytest.mark.parametrize("tenants", [None, ["tenant-1"]])
def test_a_look_for_a_text_in_errors_is_bounded(
    store: Store, tenants: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_lists, "LOOKED_INTO", 100)

    def page(repo: Repository) -> Listed:
        return repo.dead_letter_lists.page(Filter(error_text="nonesuch"), tenants, limit=50)

    assert page(store.repo).looked_back_to is not None
    for plan in store.plans(page):
        assert plan.keys <= 101
        assert plan.documents <= 100
        assert "SORT" not in plan.stages


@pytest.mark.parametrize("tenants", [None, {"tenant-1"}])
def test_a_look_for_a_text_in_keys_of_templates_is_bounded(
    store: Store, tenants: set[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_lists, "LOOKED_AT", 100)

    def page(repo: Repository) -> Listed:
        return repo.template_lists.page(tenants, limit=50, key="no such key")

    assert page(store.repo).looked_back_to is not None
    for plan in store.plans(page):
        assert plan.keys <= 101
        assert plan.documents <= 100
        assert "SORT" not in plan.stages


@pytest.mark.parametrize("tenants", [None, ["tenant-1"], ["tenant-1", "tenant-2"]], ids=str)
@pytest.mark.parametrize(
    "wanted",
    [
        *(Wanted(tab=tab) for tab in Tab),
        Wanted(tab=Tab.PENDING, error_text="nonesuch"),
        Wanted(job_type="nonesuch", until=NOW),
        Wanted(tag="nonesuch"),
        Wanted(tab=Tab.COMPLETED, template_id=job_id_for("t")),
    ],
    ids=lambda wanted: "-".join(str(each) for each in astuple(wanted) if each),
)
def test_no_page_of_jobs_looks_at_more_than_its_limit(
    store: Store, wanted: Wanted, tenants: list[str] | None
) -> None:
    place = (NOW - 70_000 * MILLISECOND, nobody())

    for plan in store.plans(
        lambda repo: [
            repo.job_lists.page(wanted, tenants, limit=50, before=before)
            for before in (None, place)
        ]
    ):
        assert "COLLSCAN" not in plan.stages
        # What is in flight is little, and has no order of its own.
        assert "SORT" not in plan.stages or plan.indexes == {"in_flight"}
        assert plan.documents <= LOOKED_AT + len(tenants or ())


@pytest.mark.parametrize(
    ("tenants", "everything"),
    [(None, "newest"), (["tenant-1"], "tenant_list"), (["tenant-1", "tenant-2"], "tenant_list")],
)
def test_counts_of_jobs_stop_at_their_limit(
    store: Store, tenants: list[str] | None, everything: str
) -> None:
    plans = store.plans(lambda repo: repo.job_lists.counts(tenants))

    assert {everything} in [plan.indexes for plan in plans]
    for plan in plans:
        assert "COLLSCAN" not in plan.stages
        # What is in flight is told apart by status, and so looked at; a template from a job, too.
        most = {"in_flight": LOOKED_AT, everything: 2 * (COUNTED + 1)}
        assert plan.documents <= max(most.get(index, COUNTED + 1) for index in plan.indexes)


def test_how_many_documents_there_are_is_read_from_the_index(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "COUNTED", STORED)

    plans = store.plans(lambda repo: repo.job_lists.counts(["tenant-1"]))

    looks = [plan.documents for plan in plans if plan.indexes == {"tenant_list"}]
    assert looks == [STORED // 5, 0]
