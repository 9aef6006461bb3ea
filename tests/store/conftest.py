"""The stored documents themselves, for what the repository refuses to write or read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection

from chronos_site.config import StoreConfig

Documents = Collection[dict[str, Any]]


@pytest.fixture
def documents(store_config: StoreConfig) -> Iterator[Documents]:
    """The collection that `repo` keeps its jobs in."""
    client: MongoClient[dict[str, Any]] = MongoClient(store_config.uri, tz_aware=True)
    with client:
        yield client[store_config.database]["jobs"]
