"""What the tests of the manifests share."""

from __future__ import annotations

import pytest

from chronos_site.config import BrokerConfig
from jobs import registry
from jobs.broker.topics import ensure_topics, topics_for


@pytest.fixture
def provisioned(broker_config: BrokerConfig) -> None:
    """The topics of all known types, and those of fan-out workers, exist."""
    ensure_topics(broker_config, topics_for(registry.known_types()))
