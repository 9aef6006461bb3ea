"""A store without its indexes is refused, with the command that makes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from chronos_site.config import StoreConfig
from jobs.errors import ConfigError, NotProvisioned
from jobs.repository import Repository
from jobs.repository.indexes import COLLECTIONS, IN_FLIGHT_INDEX, JOBS
from tests.store.conftest import Documents

[IN_FLIGHT_ONLY] = [
    each.document["partialFilterExpression"]
    for each in JOBS
    if each.document["name"] == IN_FLIGHT_INDEX
]


def test_an_empty_database_is_refused_until_it_has_its_indexes(store_config: StoreConfig) -> None:
    repository = Repository.connect(store_config)

    with pytest.raises(NotProvisioned, match=r"manage\.py migrate"):
        repository.require_indexes()
    repository.ensure_indexes()
    repository.require_indexes()

    repository.ensure_indexes()
    repository.close()


def test_each_missing_index_is_named(repo: Repository, documents: Documents) -> None:
    for collection, models in COLLECTIONS.items():
        for name in (model.document["name"] for model in models):
            documents.database[collection].drop_index(name)

            with pytest.raises(NotProvisioned, match=f"lacks the indexes {collection}.{name}. Run"):
                repo.require_indexes()
            repo.ensure_indexes()


def test_of_many_that_are_missing_ten_are_named_before_the_command(
    store_config: StoreConfig,
) -> None:
    repository = Repository.connect(store_config)
    count = sum(len(models) for models in COLLECTIONS.values())

    with pytest.raises(NotProvisioned) as refusal:
        repository.require_indexes()

    told = str(refusal.value)
    assert told.endswith(f" and {count - 10} more. Run: python manage.py migrate")
    assert told.count("jobs.") == 10
    repository.close()


def test_an_index_of_an_earlier_version_stays_until_it_is_dropped_on_purpose(
    store_config: StoreConfig, documents: Documents
) -> None:
    documents.create_index([("jobType", 1), ("priority", -1), ("scheduledAt", 1)], name="due")
    repository = Repository.connect(store_config)

    repository.ensure_indexes()
    assert {"due", "dispatch"} <= documents.index_information().keys()

    assert repository.drop_obsolete_indexes() == ["jobs.due"]
    assert repository.drop_obsolete_indexes() == []
    assert "due" not in documents.index_information()
    repository.require_indexes()
    repository.close()


def test_an_index_in_the_way_is_named_and_all_others_are_made(
    store_config: StoreConfig, documents: Documents
) -> None:
    documents.create_index([("somethingElse", 1)], name="pauses")
    documents.create_index([("jobType", 1)], name="by_hand", partialFilterExpression=IN_FLIGHT_ONLY)
    repository = Repository.connect(store_config)

    with pytest.raises(NotProvisioned) as refusal:
        repository.ensure_indexes()

    assert "dropIndex('by_hand')" in str(refusal.value)
    assert "db.jobs.dropIndex('pauses'); then run migrate again" in str(refusal.value)
    with pytest.raises(NotProvisioned, match=r"the indexes jobs\.in_flight\. Run"):
        repository.require_indexes()

    for name in ("pauses", "by_hand"):
        documents.drop_index(name)
    repository.ensure_indexes()
    repository.require_indexes()
    repository.close()


def test_announced_minutes_are_forgotten_after_a_week(
    repo: Repository, documents: Documents
) -> None:
    there = documents.database["schedule_buckets"].index_information()

    assert there["age"]["key"] == [("openedAt", 1)]
    assert there["age"]["expireAfterSeconds"] == timedelta(days=7).total_seconds()


@pytest.mark.parametrize("uri", ["mongodb://", "mongodb://host:port/", "http://x/"])
def test_an_address_that_cannot_be_read_names_its_variable(uri: str) -> None:
    with pytest.raises(ConfigError, match="MONGO_URI"):
        Repository.connect(StoreConfig(uri, "chronos"))
