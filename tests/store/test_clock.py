"""The store's clock is everybody's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final

import pytest
from pymongo import MongoClient

from chronos_site.config import StoreConfig
from devstack.mongo import Mongod
from jobs.errors import StoreUnavailable
from jobs.repository import Repository, clock
from tests.store.conftest import Documents

CLOSE: Final = timedelta(seconds=4)
"""Two readings of one clock on a busy machine."""


class Passing:
    """A monotonic clock that can be moved on."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> Passing:
    """The monotonic clock as the store's clock sees it."""
    passing = Passing()
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=passing.monotonic))
    return passing


def server_time(client: MongoClient[dict[str, Any]]) -> datetime:
    local: datetime = client.admin.command("hello")["localTime"]
    return local.replace(tzinfo=UTC)


def time_of(mongod: Mongod) -> datetime:
    client: MongoClient[dict[str, Any]] = MongoClient(mongod.location)
    with client:
        return server_time(client)


def test_now_is_the_servers_time_in_whole_milliseconds(
    repo: Repository, documents: Documents
) -> None:
    before = server_time(documents.database.client)
    now = repo.clock.now()
    after = server_time(documents.database.client)

    assert now.utcoffset() == timedelta(0)
    assert now.microsecond % 1000 == 0
    assert before - CLOSE <= now <= after + CLOSE


def test_time_passes_without_asking_again(repo: Repository, passing: Passing) -> None:
    first = repo.clock.now()
    passing.ahead += 30

    later = repo.clock.now()

    assert timedelta(seconds=30) <= later - first <= timedelta(seconds=30) + CLOSE


def test_now_never_goes_back_between_two_looks(repo: Repository) -> None:
    readings = [repo.clock.now() for _ in range(1_000)]

    assert readings == sorted(readings)


def test_the_server_is_asked_again_once_a_minute(
    repo: Repository, documents: Documents, passing: Passing
) -> None:
    repo.clock.now()
    # Only the clock believes this: it finds the server 61 s behind, as after a correction there.
    passing.ahead += 61

    now = repo.clock.now()

    assert abs(now - server_time(documents.database.client)) <= CLOSE


def test_a_look_that_is_no_more_exact_than_what_it_finds_sets_no_time_back(
    repo: Repository, passing: Passing, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = repo.clock.now()
    epoch = repo.clock._epoch
    assert epoch is not None

    def answer_late(_: str) -> dict[str, datetime]:
        told = epoch + timedelta(seconds=passing.monotonic())
        passing.ahead += 2
        return {"localTime": told.replace(tzinfo=None)}

    server = SimpleNamespace(admin=SimpleNamespace(command=answer_late))
    monkeypatch.setattr(repo.clock, "_client", server)
    passing.ahead += 61

    after = repo.clock.now()

    assert after - before >= timedelta(seconds=61 + 3 * 2)


def test_a_jump_of_this_machines_wall_clock_changes_nothing(
    repo: Repository, documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.clock.now()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)

    now = repo.clock.now()

    assert abs(now - server_time(documents.database.client)) <= CLOSE


def test_the_clock_goes_on_through_an_outage(
    private_mongod: Callable[[], Mongod], passing: Passing
) -> None:
    mongod = private_mongod()
    repo = Repository.connect(StoreConfig(mongod.location, "chronos"))
    first = repo.clock.now()
    mongod.kill()

    passing.ahead += 61
    during = repo.clock.now()
    asked_at = time.monotonic()
    again = repo.clock.now()

    assert timedelta(seconds=61) <= during - first <= timedelta(seconds=100)
    assert again - during <= CLOSE
    # Asking takes five seconds.
    assert time.monotonic() - asked_at < 4, "an absent server is asked once a minute"
    mongod.restart()
    passing.ahead += 61
    assert abs(repo.clock.now() - time_of(mongod)) <= CLOSE
    repo.close()


def test_a_store_that_was_never_reached_has_no_time(
    private_mongod: Callable[[], Mongod],
) -> None:
    mongod = private_mongod()
    repo = Repository.connect(StoreConfig(mongod.location, "chronos"))
    mongod.kill()

    asked_at = time.monotonic()
    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(repo.clock.now) for _ in range(8)]

    assert {type(answer.exception()) for answer in answers} == {StoreUnavailable}
    # Asking takes five seconds.
    assert time.monotonic() - asked_at < 8 * 4, "they must not wait for one another"
    mongod.restart()
    assert abs(repo.clock.now() - time_of(mongod)) <= CLOSE
    repo.close()
