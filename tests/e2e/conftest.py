"""Whole stacks of real processes with the handlers of `tests.project`, and short time-outs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection

from chronos_site.config import BrokerConfig, StoreConfig
from jobs import registry
from jobs.broker.topics import ensure_topics, topics_for
from jobs.lifecycle import Job
from jobs.repository import Repository
from tests.builders import a_job
from tests.processes import RoleProcess
from tests.project import handlers as _registered  # noqa: F401

Documents = Collection[dict[str, Any]]

SHORT: Final = {
    "DJANGO_SETTINGS_MODULE": "tests.project.settings",
    "LEADER_TTL": "4s",
    "CLAIM_TIMEOUT": "6s",
    "QUEUED_TIMEOUT": "5s",
    "REAPER_INTERVAL": "300ms",
    "KAFKA_SESSION_TIMEOUT": "2s",
}
"""How the roles of these tests are set up: a busy machine may stop one for a second or two."""


@pytest.fixture
def provisioned(broker_config: BrokerConfig) -> None:
    """The topics of all known types exist."""
    ensure_topics(broker_config, topics_for(registry.known_types()))


@pytest.fixture
def start(start_role: Callable[..., RoleProcess], provisioned: None) -> Callable[..., RoleProcess]:
    """Starts `manage.py` commands as `start_role` does, set up by `SHORT`."""

    def start(*arguments: str, **variables: str) -> RoleProcess:
        return start_role(*arguments, **SHORT | variables)

    return start


@pytest.fixture
def documents(store_config: StoreConfig) -> Iterator[Documents]:
    """The collection of jobs."""
    client: MongoClient[dict[str, Any]] = MongoClient(store_config.uri, tz_aware=True)
    with client:
        yield client[store_config.database]["jobs"]


@pytest.fixture
def count_by_status(documents: Documents) -> Callable[[Sequence[Job]], Counter[str]]:
    """How many of some jobs are where."""

    def count(jobs: Sequence[Job]) -> Counter[str]:
        which = {"_id": {"$in": [job.id for job in jobs]}}
        return Counter(job["status"] for job in documents.find(which, {"status": 1}))

    return count


@pytest.fixture
def record_file(tmp_path: Path) -> Path:
    """Where `test-record` writes."""
    return tmp_path / "record"


@pytest.fixture
def insert(repo: Repository, record_file: Path) -> Callable[..., list[Job]]:
    """Stores `count` jobs for `test-record`: `insert(3, sleepMs=20)`.

    Keywords that `Job` knows are its fields, the others go into the payload.
    """

    def insert(count: int = 1, **options: Any) -> list[Job]:
        fields = {"job_type": "test-record", "scheduled_at": repo.clock.now()}
        payload: dict[str, Any] = {"file": str(record_file)}
        for name, value in options.items():
            (fields if name in Job.__dataclass_fields__ else payload)[name] = value
        jobs = [a_job(**fields, payload=json.dumps(payload)) for _ in range(count)]
        assert all(repo.jobs.insert(jobs))
        return jobs

    return insert
