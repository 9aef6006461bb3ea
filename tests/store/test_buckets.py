"""Minutes that were announced to fan-out workers: each is one leader's, and none is forgotten."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from jobs.repository import Repository
from tests.builders import NOW
from tests.store.conftest import Documents

MINUTE: Final = timedelta(minutes=1)


def insert(repo: Repository, number: int, **fields: Any) -> bool:
    values: dict[str, Any] = {"due": 5, "by": "one", "term": 1, "now": NOW} | fields
    return repo.buckets.insert(NOW + number * MINUTE, **values)


def test_a_minute_has_one_bucket(repo: Repository, documents: Documents) -> None:
    assert insert(repo, 0)
    assert not insert(repo, 0, by="two", term=2, due=9)
    assert insert(repo, 1)

    first = documents.database["schedule_buckets"].find_one({"_id": NOW})

    assert first == {"_id": NOW, "due": 5, "openedAt": NOW, "openedBy": "one", "term": 1}


def test_the_newest_bucket_is_looked_for_up_to_now(repo: Repository, documents: Documents) -> None:
    assert repo.buckets.newest(until=NOW) is None
    for number in (0, 2, 7):
        insert(repo, number)
    documents.database["schedule_buckets"].insert_one({"_id": "by hand"})

    assert repo.buckets.newest(until=NOW + 2 * MINUTE) == NOW + 2 * MINUTE
    assert repo.buckets.newest(until=NOW + 6 * MINUTE) == NOW + 2 * MINUTE
    assert repo.buckets.newest(until=NOW - MINUTE) is None


def test_a_leader_takes_over_what_earlier_terms_left_open(repo: Repository) -> None:
    insert(repo, 2, by="one", term=1)
    insert(repo, 0, by="one", term=1)
    insert(repo, 1, by="one", term=1)
    insert(repo, 3, by="two", term=2)
    insert(repo, 4, by="three", term=3)
    repo.buckets.close(NOW + MINUTE, partitions=4, by="one", now=NOW)

    mine = [NOW, NOW + 2 * MINUTE, NOW + 3 * MINUTE]
    assert repo.buckets.take_over(by="two", term=2) == mine
    # Its own come again until they are closed; those of others of the same or a later term do not.
    assert repo.buckets.take_over(by="two", term=2) == mine
    assert repo.buckets.take_over(by="rival", term=2) == []
    assert repo.buckets.take_over(by="one", term=1) == []


def test_a_closed_bucket_says_who_announced_it_when_and_to_how_many(
    repo: Repository, documents: Documents
) -> None:
    insert(repo, 0)
    later = NOW + timedelta(seconds=1)

    repo.buckets.close(NOW, partitions=4, by="one", now=later)
    repo.buckets.close(NOW, partitions=8, by="two", now=later + MINUTE)

    bucket = documents.database["schedule_buckets"].find_one({"_id": NOW})
    assert bucket is not None
    assert (bucket["partitions"], bucket["triggeredBy"]) == (4, "one")
    assert bucket["triggeredAt"] == later
    assert repo.buckets.take_over(by="one", term=1) == []


def test_the_newest_buckets_come_first_and_say_who_triggered_them(
    repo: Repository, documents: Documents
) -> None:
    for number in range(3):
        insert(repo, number)
    repo.buckets.close(NOW, partitions=4, by="one", now=NOW + MINUTE)
    documents.database["schedule_buckets"].update_one(
        {"_id": NOW + 2 * MINUTE}, {"$set": {"term": "x", "due": True, "openedBy": None}}
    )

    strange, second, first = repo.buckets.recent(limit=10)

    assert [each.minute for each in (strange, second, first)] == [
        NOW + 2 * MINUTE,
        NOW + MINUTE,
        NOW,
    ]
    assert (first.triggered_by, first.partitions, first.is_open) == ("one", 4, False)
    assert (second.triggered_at, second.is_open) == (None, True)
    assert (strange.term, strange.due, strange.opened_by) == (None, None, None)
    assert repo.buckets.recent(limit=1) == [strange]
