"""Monitoring by the Prometheus operator: the same targets, labels and rules as without it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.deploy.manifests import LARGE, ROOT, Manifests
from tools import prometheus_rule
from tools.dashboards.files import files as dashboards

CONFIGURATION = ROOT.parent / "prometheus" / "prometheus.yml"


@pytest.fixture(scope="module")
def large() -> Manifests:
    return Manifests(LARGE)


def test_the_operator_has_the_rules_of_prometheus() -> None:
    assert prometheus_rule.RESOURCE.read_text() == prometheus_rule.resource(), (
        "Run: python -m tools.prometheus_rule"
    )


def test_no_rule_is_lost_on_the_way(large: Manifests) -> None:
    [rules] = large.of("PrometheusRule")
    files: list[Path] = sorted(prometheus_rule.RULES.iterdir())

    groups = [group for path in files for group in yaml.safe_load(path.read_text())["groups"]]
    assert rules["spec"]["groups"] == groups != []


def test_the_job_is_called_as_rules_and_dashboards_call_it(large: Manifests) -> None:
    [monitor] = large.of("ServiceMonitor")
    [service] = [
        service
        for service in large.of("Service")
        if monitor["spec"]["selector"]["matchLabels"].items()
        <= service["metadata"].get("labels", {}).items()
    ]

    [job] = yaml.safe_load(CONFIGURATION.read_text())["scrape_configs"]
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == job["job_name"]


def test_processes_are_asked_where_and_as_often_as_without_the_operator(large: Manifests) -> None:
    [monitor] = large.of("ServiceMonitor")
    [endpoint] = monitor["spec"]["endpoints"]

    configuration = yaml.safe_load(CONFIGURATION.read_text())
    [job] = configuration["scrape_configs"]
    # https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config
    assert endpoint["path"] == job.get("metrics_path", "/metrics")
    assert endpoint["interval"] == configuration["global"]["scrape_interval"]


def test_grafanas_sidecar_finds_every_dashboard_and_no_old_one(large: Manifests) -> None:
    """By the label of Grafana's Helm chart, under names that stay from release to release."""
    boards = {
        config["metadata"]["name"]: config["data"]
        for config in large.of("ConfigMap")
        if config["metadata"].get("labels") == {"grafana_dashboard": "1"}
    }

    assert boards == {
        f"dashboard-{path.stem}": {f"chronos-{path.name}": text}
        for path, text in dashboards().items()
    }
    # What `kubectl apply` adds to each as an annotation.
    assert all(len(json.dumps(json.dumps(data))) < 262_144 for data in boards.values())


def test_every_process_of_every_role_is_scraped_and_says_its_role(large: Manifests) -> None:
    [monitor] = large.of("ServiceMonitor")
    [endpoint] = monitor["spec"]["endpoints"]
    [service] = [each for each in large.of("Service") if each["metadata"]["name"] == "metrics"]
    ports = {port["name"]: port["targetPort"] for port in service["spec"]["ports"]}

    scraped = list(large.selected(service["spec"]["selector"]))
    assert scraped == large.deployments
    assert all(ports[endpoint["port"]] in each.ports for each in scraped)
    # Prometheus is to see those above all that are not ready.
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert endpoint["relabelings"] == [
        {
            "sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_component"],
            "targetLabel": "role",
        }
    ]
    assert {each.role for each in scraped} == {"api", "scheduler", "fanout", "executor", "reaper"}
