"""What the tests of the manifests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient

from chronos_site.env import BrokerConfig, StoreConfig
from jobs import registry
from jobs.broker.topics import ensure_topics, topics_for
from tests.conftest import Servers
from tests.deploy.observed import Observed, observed_stack


@pytest.fixture
def provisioned(broker_config: BrokerConfig) -> None:
    """The topics of all known types, and those of fan-out workers, exist."""
    ensure_topics(broker_config, topics_for(registry.known_types()))


@pytest.fixture(scope="module")
def observed(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """A stack of all roles that has seen jobs of all sorts, and the Prometheus that watches it."""
    for server in (servers.mongod, servers.kafka, servers.etcd):
        server.wait_ready()
    store = StoreConfig(servers.mongod.location, f"test_{uuid4().hex}")
    broker = BrokerConfig((servers.kafka.address,))
    directory = tmp_path_factory.mktemp("observed") / "prometheus"
    with observed_stack(directory, store, broker, [servers.etcd.address]) as stack:
        yield stack
    client: MongoClient[dict[str, Any]] = MongoClient(store.uri)
    with client:
        client.drop_database(store.database)
