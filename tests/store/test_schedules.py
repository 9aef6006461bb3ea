"""Lists of one-time schedules: each is one range of one index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from pymongo import MongoClient

from chronos_site.config import StoreConfig
from devstack.mongo import Mongod
from jobs.lifecycle import Job, job_id_for
from jobs.repository import Repository
from jobs.repository.documents import to_document
from tests.builders import NOW, a_job
from tests.store.plans import Explainer, Plan, Recorder

OF_EACH = 10_000
SECOND = timedelta(seconds=1)


@pytest.fixture(scope="module")
def store(mongo_server: Mongod) -> Iterator[tuple[Repository, Explainer]]:
    """10,000 jobs without a definition, as many schedules of two definitions and two tenants."""
    config = StoreConfig(mongo_server.location, f"test_{uuid4().hex}")
    recorder = Recorder()
    client: MongoClient[dict[str, object]] = MongoClient(
        config.uri, tz_aware=True, event_listeners=[recorder]
    )
    job = a_job()
    documents = []
    for number in range(OF_EACH):
        key = f"plain-{number}"
        plain = replace(job, id=job_id_for(key), idempotency_key=key)
        key = f"schedule-{number}"
        schedule = replace(
            plain,
            id=job_id_for(key),
            idempotency_key=key,
            scheduled_at=NOW + number * SECOND,
            definition=f"definition-{number % 2}",
            tenant_id=f"tenant-{number % 4 // 2}",
            tags=("rare",) if number % 100 == 0 else (),
        )
        documents += [to_document(plain), to_document(schedule)]
    client[config.database]["jobs"].insert_many(documents, ordered=False)
    repo = Repository(client, config)
    repo.ensure_indexes()
    yield repo, Explainer(client, recorder, config.database)
    client.drop_database(config.database)
    client.close()


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({}, "schedules"),
        ({"definition": "definition-0"}, "schedules_by_definition"),
        ({"tag": "rare"}, "schedules_by_tag"),
        ({"due_from": NOW + 5_000 * SECOND, "due_before": NOW + 5_200 * SECOND}, "schedules"),
        (
            {
                "definition": "definition-0",
                "due_from": NOW + 5_000 * SECOND,
                "due_before": NOW + 5_400 * SECOND,
            },
            "schedules_by_definition",
        ),
    ],
)
def test_a_page_looks_at_little_more_than_it_returns(
    store: tuple[Repository, Explainer], filters: dict[str, object], index: str
) -> None:
    repo, explainer = store

    (plan,) = explainer.plans(lambda: repo.jobs.schedules("tenant-0", limit=20, **filters))

    assert isinstance(plan, Plan)
    assert plan.indexes == {index}
    assert not plan.stages & {"SORT", "COLLSCAN"}
    assert plan.returned == 21
    assert plan.documents <= plan.returned + 1
    assert plan.keys <= plan.returned + 3


def test_pages_follow_each_other_without_a_gap(store: tuple[Repository, Explainer]) -> None:
    repo, _ = store
    seen: list[Job] = []
    before = None

    while True:
        page = repo.jobs.schedules("tenant-0", limit=700, before=before)
        seen += [job for job in page.jobs if isinstance(job, Job)]
        if page.next is None:
            break
        before = page.next

    assert len(seen) == len({job.id for job in seen}) == OF_EACH // 2
    assert [job.scheduled_at for job in seen] == sorted(
        (job.scheduled_at for job in seen), reverse=True
    )
