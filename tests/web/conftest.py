"""The API on a database of the test's own."""

from __future__ import annotations

import pytest

from jobs import services
from jobs.repository import Repository
from jobs.services import Services
from tests.web.client import Api


@pytest.fixture
def use_cases(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> Services:
    """The services that the API uses during the test."""
    made = Services(repo, frozenset({"noop", "log-message", "flaky", "slow"}))
    monkeypatch.setattr(services, "default", lambda: made)
    return made


@pytest.fixture
def api(use_cases: Services) -> Api:
    return Api()
