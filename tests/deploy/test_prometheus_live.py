"""The rules, asked of a real Prometheus that watches a real stack."""

from __future__ import annotations

from typing import Any

from tests.deploy.observed import Observed
from tests.monitoring import DEPLOYED, ROLES, read


def rules(kind: str) -> list[dict[str, Any]]:
    """All recording rules (`record`) or alerts (`alert`)."""
    return [
        rule
        for path in sorted(DEPLOYED.glob("rules/*.yml"))
        for group in read(path)["groups"]
        for rule in group["rules"]
        if kind in rule
    ]


def test_every_role_is_scraped_and_tells_its_version(observed: Observed) -> None:
    scraped = observed.prometheus.query(
        "up * on (instance) group_left (version) chronos_build_info"
    )

    assert {each["metric"]["role"] for each in scraped} == set(ROLES.values())
    assert all(each["metric"]["version"] for each in scraped)
    assert {each["value"][1] for each in scraped} == {"1"}


def test_every_recording_rule_records_something(observed: Observed) -> None:
    names = {rule["record"] for rule in rules("record")}

    assert names == {name for name in names if observed.prometheus.query(name)}


def test_the_ratio_of_failures_is_that_of_the_attempts(observed: Observed) -> None:
    ratios = {
        each["metric"]["job_type"]: float(each["value"][1])
        for each in observed.prometheus.query("chronos:failure_ratio:rate5m")
    }

    # What no attempt of ended lately has none.
    assert ratios == {"noop": 0, "slow": 0, "http": 0, "flaky": 1}
