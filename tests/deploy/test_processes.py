"""What is wrong with a manifest's process is found, and said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.deploy.processes import Probe, Process, check_probes
from tests.processes import RoleProcess

API = Process(
    "a manifest: api",
    ("runapi", "--workers", "2"),
    {"API_HOST": "0.0.0.0", "METRICS_HOST": "0.0.0.0"},  # noqa: S104
    frozenset({8080, 9100}),
    (Probe("/readyz", 9100),),
)


def test_a_role_as_it_should_be_is_accepted() -> None:
    API.check()


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (replace(API, arguments=("runserver2",)), "no management command 'runserver2'"),
        (replace(API, arguments=("runapi", "--processes", "2")), "--processes"),
        (replace(API, arguments=("runapi", "--workers", "none")), "--workers"),
        (replace(API, arguments=("runexecutor", "--type", "http,https")), "https"),
        (replace(API, environment={**API.environment, "API_PROT": "8080"}), "API_PROT"),
        (replace(API, environment={**API.environment, "API_PORT": "http"}), "API_PORT"),
        (replace(API, environment={**API.environment, "LEADER_TTL": "1ms"}), "LEADER_TTL"),
        (replace(API, environment={**API.environment, "SECRET_KEY": ""}), "SECRET_KEY"),
        (replace(API, environment={"API_HOST": "0.0.0.0"}), "METRICS_HOST"),  # noqa: S104
        (replace(API, ports=frozenset({8000, 9100})), "8080"),
        (replace(API, probes=(Probe("/healthz", 8080),)), "8080"),
        (replace(API, probes=(Probe("/health", 9100),)), "/health"),
    ],
)
def test_what_chronos_would_not_understand_is_refused(wrong: Process, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint) as refusal:
        wrong.check()

    assert "a manifest: api" in str(refusal.value)


def test_probes_are_asked_of_the_real_role(
    provisioned: None, start_role: Callable[..., RoleProcess]
) -> None:
    check_probes([API], start_role)


def test_a_role_that_does_not_start_is_shown_with_its_output(
    provisioned: None, start_role: Callable[..., RoleProcess]
) -> None:
    fanout = replace(API, arguments=("runfanout",), environment={"DISPATCH": "leader"})

    with pytest.raises(AssertionError, match="DISPATCH is leader"):
        check_probes([fanout], start_role)
