"""The API on one database for all of these tests, emptied before each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.core.management.commands import migrate
from django.db import connections
from pymongo import MongoClient
from pytest_django.plugin import DjangoDbBlocker

from chronos_site.config import StoreConfig
from devstack.mongo import Mongod
from jobs import services
from jobs.dashboard.models import TenantMember
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
    shared_repository.audit_log._entries.delete_many({})
    types = frozenset({"noop", "log-message", "flaky", "slow", "http", "kafka"})
    made = Services(shared_repository, types, Secrets([KEY]))
    monkeypatch.setattr(services, "default", lambda: made)
    return made


@pytest.fixture(scope="session")
def accounts_database(
    shared_store: StoreConfig, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """Django's own collections, in the database of these tests."""
    connection = connections["default"]
    connection.settings_dict.update(HOST=shared_store.uri, NAME=shared_store.database)
    with django_db_blocker.unblock():
        call_command(migrate.Command(), verbosity=0, interactive=False)
        yield
        connection.close()


@pytest.fixture
def pages(accounts_database: None, use_cases: Services) -> Services:
    """The pages on the database of these tests: without users, groups, members and sessions."""
    for model in (TenantMember, User, Group, Session):
        model._base_manager.all().delete()
    return use_cases


@pytest.fixture
def api(use_cases: Services) -> Api:
    return Api()


@pytest.fixture
def nothing_to_see(pages: Services) -> Iterator[None]:
    """The overview is about all there is: nothing before the test, nor after it."""

    def clear() -> None:
        pages.repository.nodes._nodes.delete_many({})
        pages.repository.statistics._statistics.delete_many({})
        pages.repository.jobs._jobs.delete_many({})

    clear()
    yield
    clear()
