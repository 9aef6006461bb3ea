"""The API on one database for all of these tests, emptied before each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from cryptography.fernet import Fernet
from pymongo import MongoClient

from chronos_site.env import StoreConfig
from devstack.mongo import Mongod
from jobs import services
from jobs.delivery.secrets import Secrets
from jobs.repository import Repository
from jobs.services import Services
from tests.web.client import Api

KEY = Fernet.generate_key().decode()
"""The one of ENCRYPTION_KEYS."""


@pytest.fixture(scope="session")
def shared_store(mongo_server: Mongod) -> Iterator[StoreConfig]:
    """Making a database with its indexes takes longer than most of these tests."""
    config = StoreConfig(mongo_server.location, f"test_web_{uuid4().hex}")
    yield config
    client: MongoClient[dict[str, Any]] = MongoClient(config.uri)
    with client:
        client.drop_database(config.database)


@pytest.fixture(scope="session")
def shared_repository(shared_store: StoreConfig) -> Iterator[Repository]:
    repository = Repository.connect(shared_store)
    repository.ensure_indexes()
    yield repository
    repository.close()


@pytest.fixture
def use_cases(shared_repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Services:
    """The services that the API uses during the test."""
    shared_repository.jobs._jobs.delete_many({})
    shared_repository.definitions._definitions.delete_many({})
    types = frozenset({"noop", "log-message", "flaky", "slow", "http", "kafka"})
    made = Services(shared_repository, types, Secrets([KEY]))
    monkeypatch.setattr(services, "default", lambda: made)
    return made


@pytest.fixture
def api(use_cases: Services) -> Api:
    return Api()
