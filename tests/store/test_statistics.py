"""The counts of charts: added up by any number of processes, and each of them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from jobs import attempts
from jobs.bookkeeping import Bookkeeper
from jobs.errors import StoreUnavailable
from jobs.repository import Repository
from jobs.repository.statistics import StatisticsStore
from jobs.statistics import Resolution, Stretch, Tally
from tests.builders import NOW, a_job
from tests.store.conftest import Documents

ALL = Stretch(Resolution.MINUTE, NOW, "noop", None)
MINUTE = timedelta(minutes=1)


def read(
    repo: Repository, tenants: Collection[str] | None = None, *, since: timedelta = timedelta(0)
) -> dict[Any, Tally]:
    return repo.statistics.read(Resolution.MINUTE, since=NOW + since, tenants=tenants)


def test_counts_are_added_up(repo: Repository) -> None:
    tally = Tally(completed=2, failed=1, dead=1, milliseconds=5, lags=Counter({0: 1, 30: 2}))

    repo.statistics.add({ALL: tally}, batch="one")
    repo.statistics.add({ALL: tally}, batch="two")

    assert read(repo) == {
        (NOW, "noop"): Tally(
            completed=4, failed=2, dead=2, milliseconds=10, lags=Counter({0: 2, 30: 4})
        )
    }


def test_what_is_repeated_is_not_counted_again(repo: Repository) -> None:
    other = Stretch(Resolution.MINUTE, NOW, "slow", None)
    repo.statistics.add({ALL: Tally(completed=1)}, batch="one")

    # As after an outage in which only the first document was written.
    refused = repo.statistics.add({ALL: Tally(completed=1), other: Tally(completed=7)}, batch="one")

    assert refused == 0
    assert read(repo) == {(NOW, "noop"): Tally(completed=1), (NOW, "slow"): Tally(completed=7)}


def test_processes_that_make_the_same_document_all_count(repo: Repository) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(
            threads.map(
                lambda n: repo.statistics.add({ALL: Tally(completed=1)}, batch=str(n)), range(200)
            )
        )

    assert read(repo) == {(NOW, "noop"): Tally(completed=200)}


def test_a_document_that_refuses_does_not_hinder_the_others(
    repo: Repository, documents: Documents
) -> None:
    other = Stretch(Resolution.MINUTE, NOW, "slow", None)
    repo.statistics.add({ALL: Tally(completed=1)}, batch="one")
    documents.database["statistics"].update_one({}, {"$set": {"completed": "many", "lags": [1]}})

    refused = repo.statistics.add({ALL: Tally(completed=1), other: Tally(completed=1)}, batch="two")

    assert refused == 1
    assert read(repo) == {(NOW, "noop"): Tally(), (NOW, "slow"): Tally(completed=1)}


def test_tenants_see_their_own_and_the_time_that_they_ask_for(repo: Repository) -> None:
    repo.statistics.add(
        {
            Stretch(Resolution.MINUTE, NOW + number * MINUTE, "noop", tenant): Tally(completed=1)
            for number in range(3)
            for tenant in ("a", "b", "c")
        },
        batch="one",
    )

    assert {
        key: tally.completed for key, tally in read(repo, {"a", "c"}, since=MINUTE).items()
    } == {
        (NOW + MINUTE, "noop"): 2,
        (NOW + 2 * MINUTE, "noop"): 2,
    }
    assert read(repo, ()) == read(repo, None) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"jobType": None},
        {"jobType": 7},
        {"at": [NOW]},
        {"lags": {"x": 1, "1": "x"}},
        {"completed": None, "failed": -1, "dead": 1.5, "milliseconds": {}},
    ],
    ids=str,
)
def test_a_document_edited_by_hand_breaks_no_chart(
    repo: Repository, documents: Documents, changes: dict[str, Any]
) -> None:
    repo.statistics.add({ALL: Tally(completed=1)}, batch="one")
    documents.database["statistics"].update_one({}, {"$set": changes})

    assert all(isinstance(tally, Tally) for tally in read(repo).values())


def test_fine_counts_are_kept_for_hours_and_coarse_ones_for_days(
    repo: Repository, documents: Documents
) -> None:
    repo.statistics.add(
        {Stretch(each, NOW, "noop", None): Tally(completed=1) for each in Resolution}, batch="one"
    )

    kept = {
        document["resolution"]: document["expiresAt"] - NOW
        for document in documents.database["statistics"].find()
    }

    assert kept == {
        "1m": timedelta(hours=3, minutes=1),
        "15m": timedelta(days=2, minutes=15),
        "2h": timedelta(days=9, hours=2),
    }


class Away:
    """A store that adds, and whose answer is lost the first time."""

    def __init__(self, store: StatisticsStore) -> None:
        self._store = store
        self.is_away = True

    def add(self, tallies: Any, *, batch: str) -> int:
        refused = self._store.add(tallies, batch=batch)
        if self.is_away:
            raise StoreUnavailable("MongoDB does not answer")
        return refused


def test_a_bookkeeper_counts_once_what_it_stores_twice(repo: Repository) -> None:
    store = Away(repo.statistics)
    bookkeeper = Bookkeeper(store)  # type: ignore[arg-type]
    job = a_job()
    end = attempts.completed(job, started_at=NOW, finished_at=NOW)
    bookkeeper.note([(job, end)])

    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            bookkeeper.flush()
        bookkeeper.note([(job, end)])
    store.is_away = False
    bookkeeper.close()

    assert read(repo)[NOW, "noop"].completed == 3
