"""The dashboards: what the generator writes, valid for Grafana, complete for a reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard as GrafanasDashboard
from prometheus_client import REGISTRY, Gauge

# They fill REGISTRY.
import executor.metrics  # noqa: F401
import jobs.api.middleware  # noqa: F401
import reaper.metrics  # noqa: F401
import scheduler.metrics  # noqa: F401
from tools.dashboards.files import DASHBOARDS, FOLDER, files
from tools.dashboards.model import DATASOURCE, Dashboard, Panel

DEPLOY: Final = FOLDER.parents[1]
MADE_BY_PROMETHEUS: Final = {"up", "ALERTS"}
GRAFANAS_VARIABLES: Final = {"__rate_interval", "__range"}
THEIRS: Final = ("python_", "process_")
# It only tells the alerts what to expect.
NOT_DRAWN: Final = {"scheduler_fans_out"}
# The model does not have it, the Prometheus data source reads it.
NOT_IN_THE_MODEL: Final = {"titleFormat"}
_WORDS: Final = {"by", "on", "or", "unless", "and", "vector"}

each_dashboard = pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
each_panel = pytest.mark.parametrize(
    "panel",
    [panel for board in DASHBOARDS for panel in board.panels],
    ids=lambda panel: panel.title,
)


def test_the_files_are_what_the_generator_writes() -> None:
    written = {path: path.read_text() for path in FOLDER.glob("*.json")}

    assert written == files(), "run `python -m tools.dashboards`"


@each_dashboard
def test_grafanas_own_model_knows_every_field(board: Dashboard) -> None:
    """What the model does not know it drops, so nothing of ours may be missing afterwards."""
    register_default_plugins()
    ours = json.loads(json.dumps(board.document()))

    theirs = json.loads(JSONEncoder().encode(GrafanasDashboard.from_json(ours)))

    assert list(_differences(ours, theirs)) == []


@each_dashboard
def test_no_two_panels_overlap_and_each_line_is_full(board: Dashboard) -> None:
    places = [panel["gridPos"] for panel in board.document()["panels"]]

    for line in {place["y"] for place in places}:
        assert sum(place["w"] for place in places if place["y"] == line) == 24
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above


def test_uids_are_unique_and_so_are_numbers_and_titles_of_panels() -> None:
    assert len({board.uid for board in DASHBOARDS}) == len(DASHBOARDS)
    for board in DASHBOARDS:
        numbers = [panel["id"] for panel in board.document()["panels"]]
        assert len(set(numbers)) == len(numbers)
        titles = [panel.title for panel in board.panels]
        assert len(set(titles)) == len(titles)


@each_dashboard
def test_rows_are_in_the_order_in_which_an_operator_asks(board: Dashboard) -> None:
    assert [row.question for row in board.rows] == [
        "Is work late?",
        "Is it failing?",
        "Where is it stuck?",
        "Who is doing it?",
    ]


@each_panel
def test_a_panel_says_what_it_shows_what_is_normal_and_in_which_unit(panel: Panel) -> None:
    for text in (panel.title, panel.shows, panel.normal, panel.unit):
        assert text.strip()
    assert f"Normal: {panel.normal}" in panel.description
    assert panel.queries
    assert len({query.legend for query in panel.queries}) == len(panel.queries)
    if panel.empty_because:
        assert panel.empty_because in panel.description


@each_panel
def test_no_panel_needs_an_eye_for_red_and_green(panel: Panel) -> None:
    drawn = json.dumps(panel.document(1, {}))

    assert "green" not in drawn
    assert "continuous" not in drawn


@each_dashboard
def test_every_variable_is_declared_and_used(board: Dashboard) -> None:
    document = board.document()
    declared = {variable["name"] for variable in document["templating"]["list"]}

    used = set(
        re.findall(r"\$\{?(\w+)", json.dumps(document["panels"]) + json.dumps(document["links"]))
    )

    assert used - GRAFANAS_VARIABLES == declared


def test_every_metric_is_exported_by_a_role_or_is_a_recording_rule() -> None:
    known = set().union(*exported().values()) | recorded().keys() | MADE_BY_PROMETHEUS

    for board in DASHBOARDS:
        for panel in board.panels:
            for query in panel.queries:
                assert metrics_in(query.expression) <= known, f"{board.name}: {panel.title}"
        for variable in board.variables:
            [inside] = re.findall(r"^label_values\((.*), \w+\)$", variable.query)
            assert metrics_in(inside) <= known


def test_every_metric_of_ours_is_on_a_dashboard() -> None:
    asked = {
        metric
        for board in DASHBOARDS
        for panel in board.panels
        for query in panel.queries
        for metric in metrics_in(query.expression)
    }
    shown = behind(asked)

    left_out = {name for name, series in exported().items() if not series & shown}

    assert {name for name in left_out if not name.startswith(THEIRS)} == NOT_DRAWN


def test_the_panels_link_every_alert_and_nothing_else() -> None:
    rules = _read_yaml(*(DEPLOY / "prometheus/rules").glob("*.yml"))
    alerts = {rule["alert"] for rule in _rules(rules) if "alert" in rule}

    linked = {alert for board in DASHBOARDS for panel in board.panels for alert in panel.alerts}

    assert linked == alerts


def test_whoever_is_said_to_count_is_who_exports_the_figure() -> None:
    said = {
        (panel.title, role, query.expression)
        for board in DASHBOARDS
        for panel in board.panels
        for role in re.findall(r"as the (\w+) (?:counts|sees) them", panel.shows)
        for query in panel.queries
    }

    assert said
    for title, role, expression in said:
        [asked] = metrics_in(expression)
        [metric] = metrics_in(recorded()[asked])
        gauges = vars(import_module(f"{role}.metrics")).values()
        assert metric in {each._name for each in gauges if isinstance(each, Gauge)}, title


def test_the_data_source_is_the_one_that_the_panels_name() -> None:
    [source] = _read_yaml(DEPLOY / "grafana/provisioning/datasources/prometheus.yml")[0][
        "datasources"
    ]

    assert {"type": source["type"], "uid": source["uid"]} == DATASOURCE


def test_compose_puts_the_files_where_grafana_and_its_provisioning_look() -> None:
    [compose] = _read_yaml(DEPLOY.parent / "docker-compose.yml")
    grafana, prometheus = compose["services"]["grafana"], compose["services"]["prometheus"]
    [provider] = _read_yaml(DEPLOY / "grafana/provisioning/dashboards/chronos.yml")[0]["providers"]
    [source] = _read_yaml(DEPLOY / "grafana/provisioning/datasources/prometheus.yml")[0][
        "datasources"
    ]

    assert {
        "./deploy/grafana/provisioning:/etc/grafana/provisioning:ro",
        f"./deploy/grafana/dashboards:{provider['options']['path']}:ro",
    } <= set(grafana["volumes"])
    assert source["url"] == "http://prometheus:9090"
    assert set(grafana["networks"]) & set(prometheus["networks"])


def test_grafana_knows_how_often_prometheus_scrapes() -> None:
    """`$__rate_interval` is four times that, and a rate over less than two samples is nothing."""
    [source] = _read_yaml(DEPLOY / "grafana/provisioning/datasources/prometheus.yml")[0][
        "datasources"
    ]
    [prometheus] = _read_yaml(DEPLOY / "prometheus/prometheus.yml")

    assert source["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"]


def metrics_in(expression: str) -> set[str]:
    """The metrics that a PromQL expression names."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(by|on) \([^)]*\)|\"[^\"]*\"", " ", expression)
    names = re.findall(r"(?<![\w:.])[A-Za-z_][\w:]*(?!\w|:)(?!\s*\()", bare)
    return set(names) - _WORDS


def exported() -> Mapping[str, set[str]]:
    """The names of the series that some role's `/metrics` has, by metric."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {
        metric.name: {metric.name + suffix for suffix in suffixes.get(metric.type, ("",))}
        for metric in REGISTRY.collect()
    }


def recorded() -> Mapping[str, str]:
    """What recording rules record, by the names that they give."""
    rules = _rules(_read_yaml(*(DEPLOY / "prometheus/rules").glob("*.yml")))
    return {rule["record"]: rule["expr"] for rule in rules if "record" in rule}


def behind(metrics: set[str]) -> set[str]:
    """These, and what the recording rules among them ask for, and so on."""
    asked = [metrics_in(recorded()[rule]) for rule in metrics & recorded().keys()]
    found = metrics.union(*asked)
    return found if found == metrics else behind(found)


def _rules(documents: list[Any]) -> Iterator[Mapping[str, Any]]:
    for document in documents:
        for group in document.get("groups", []):
            yield from group["rules"]


def _read_yaml(*paths: Path) -> list[Any]:
    return [yaml.safe_load(path.read_text()) for path in paths]


def _differences(ours: Any, theirs: Any, where: str = "") -> Iterator[str]:
    match ours:
        case dict():
            for key, value in ours.items():
                if key in theirs:
                    yield from _differences(value, theirs[key], f"{where}/{key}")
                elif key not in NOT_IN_THE_MODEL:
                    yield f"{where}/{key} was dropped"
        case list():
            for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
                yield from _differences(one, other, f"{where}/{number}")
        case _ if ours != theirs:
            yield f"{where}: {ours!r} became {theirs!r}"
