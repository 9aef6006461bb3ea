"""`manage.py smoke`: the delivery pipeline through a real stack."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet

from chronos_site.config import BrokerConfig
from devstack.settings import LOOPBACK
from jobs.broker.topics import ensure_topics, topics_for
from jobs.registry import known_types
from tests.processes import RoleProcess

StartRole = Callable[..., RoleProcess]
PATIENCE = timedelta(seconds=180)


@pytest.fixture
def start_stack(start_role: StartRole, broker_config: BrokerConfig) -> Callable[..., None]:
    """Starts the API, a scheduler and an executor; keywords are variables of the executor."""

    def start(**variables: str) -> None:
        ensure_topics(broker_config, topics_for(known_types()))
        keys = {"ENCRYPTION_KEYS": Fernet.generate_key().decode()}
        roles = [
            start_role("runapi", **keys),
            start_role("runscheduler"),
            start_role("runexecutor", "--type", "http,kafka", **keys, **variables),
        ]
        for role in roles:
            role.wait_ready()

    return start


def test_a_stack_passes(start_stack: Callable[..., None], start_role: StartRole) -> None:
    start_stack(DELIVERY_ALLOWED_NETWORKS=LOOPBACK)

    smoke = start_role("smoke", "--patience", "150s")

    assert smoke.wait(PATIENCE) == 0, smoke.output
    assert "All 12 are as they should be." in smoke.output
    assert "503 503 200" in smoke.output


def test_what_goes_wrong_is_named(start_stack: Callable[..., None], start_role: StartRole) -> None:
    # Without a word about loopback, nothing may be delivered there.
    start_stack()

    smoke = start_role("smoke", "--patience", "150s")

    assert smoke.wait(PATIENCE) == 1, smoke.output
    assert "is dlq, not completed" in smoke.output
    assert "went wrong: HTTP, signed" in smoke.output


def test_no_stack_is_said_in_a_sentence(start_role: StartRole, broker_config: BrokerConfig) -> None:
    smoke = start_role("smoke")

    assert smoke.wait(PATIENCE) == 1
    assert "the API does not answer at" in smoke.output
