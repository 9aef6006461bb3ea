"""The configuration and the rules of Prometheus: valid, tested alert by alert, and explained."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client import REGISTRY

# They fill REGISTRY.
import executor.metrics  # noqa: F401
import jobs.api.middleware  # noqa: F401
import reaper.metrics  # noqa: F401
import scheduler.metrics  # noqa: F401
from jobs.logs import events
from tests.monitoring import DEPLOYED, ROLES, read, seconds
from tools import debian

ROOT: Final = DEPLOYED.parents[1]
TESTS: Final = sorted(DEPLOYED.glob("tests/*.yml"))
RULES: Final = [
    rule
    for path in sorted(DEPLOYED.glob("rules/*.yml"))
    for group in read(path)["groups"]
    for rule in group["rules"]
]
CASES: Final = [case for file in TESTS for case in read(file)["tests"]]
ALERTS: Final = [rule for rule in RULES if "alert" in rule]
RECORDED: Final = {rule["record"] for rule in RULES if "record" in rule}
LOOKS: Final[dict[str, set[bool]]] = defaultdict(set)
"""Whether each alert is to fire, in the tests of the rules."""
for _case in CASES:
    for _look in _case.get("alert_rule_test", ()):
        LOOKS[_look["alertname"]].add(bool(_look["exp_alerts"]))
ALWAYS: Final = "Watchdog"
"""The alert whose end is the news."""
SAID_FOR: Final = {
    "1m": "For a minute",
    "2m": "For two minutes",
    "3m": "For three minutes",
    "5m": "For five minutes",
    "10m": "For ten minutes",
    "15m": "For a quarter of an hour",
    "20m": "For twenty minutes",
}
"""How the runbook says how long an alert waits."""
SAID_FIGURES: Final = {
    "ShardsWithoutOwner": {"< 256": "fewer than all 256"},
    "Backlog": {"> 300": "more than five minutes"},
    "BacklogForLong": {"> 1800": "more than half an hour"},
    "DispatchLag": {"> 10\n": "more than ten seconds", "0.95": "in twenty"},
    "StartLag": {":p95 > 10\n": "more than ten seconds"},
    "Saturation": {"> 0.9 ": "more than 90 %"},
    "FailureRatio": {"> 0.2\n": "more than a fifth"},
    "DeadLettersGrow": {"[1h]) > 10\n": "more than ten", ">= 100000": "100,000"},
    "AbandonedHandlers": {"[1h]": "last hour"},
    "CronInvalid": {"[1h]": "last hour"},
    "CronMissed": {"[1h]": "last hour"},
    "TemplatesOverdue": {"> 60": "more than a minute"},
    "ApiErrors": {"> 0.05": "more than one answer of the API in twenty"},
}
"""What of an alert's expression the runbook says in words, and the words."""
MADE_BY_PROMETHEUS: Final = {"up"}
_WORDS: Final = {"or", "unless", "and"}
_BESIDE_SERIES: Final = re.compile(r"\b(?:by|on)\s*\([^)]*\)|\[[^]]*\]|\boffset \w+")
_SERIES: Final = re.compile(r"([a-z_][\w:]*)\b(?!\s*\()(\{[^}]*\})?")

each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])


def promtool(*arguments: str, cwd: Path = DEPLOYED) -> None:
    done = subprocess.run(
        [debian.find("promtool"), *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def selectors(expression: str) -> dict[str, set[str]]:
    """The names of series that PromQL asks for, and the selectors behind each."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, selector in _SERIES.findall(_BESIDE_SERIES.sub(" ", expression)):
        if name not in _WORDS:
            found[name].add(selector)
    return found


def explanation(alert: str) -> str:
    """The section of the runbook about an alert."""
    page = (ROOT / "docs/runbook.md").read_text()
    [section] = re.findall(rf"^### {alert}\n(.*?)(?=^##|\Z)", page, re.M | re.S)
    return str(section)


def matches(route: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a route of Alertmanager is that of an alert. Only matchers with `=` are known."""
    parsed = [re.fullmatch(r'(\w+)="(\w+)"', matcher) for matcher in route["matchers"]]
    return all(labels.get(each[1]) == each[2] for each in parsed)  # type: ignore[index]


def exported() -> set[str]:
    """The names of all series that some role shows."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {
        metric.name + suffix
        for metric in REGISTRY.collect()
        for suffix in suffixes.get(metric.type, ("",))
    }


def test_the_configuration_and_the_rules_are_valid() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", *(str(path) for path in sorted(DEPLOYED.glob("rules/*.yml"))))


@pytest.mark.parametrize("file", TESTS, ids=lambda path: path.stem)
def test_the_rules_do_what_their_tests_say(file: Path) -> None:
    promtool("test", "rules", file.name, cwd=file.parent)


@each_alert
def test_an_alert_is_shown_to_fire_and_not_to_fire(alert: dict[str, Any]) -> None:
    assert LOOKS[alert["alert"]] == ({True} if alert["alert"] == ALWAYS else {True, False})


def test_every_recording_rule_has_a_test() -> None:
    asked = " ".join(look["expr"] for case in CASES for look in case.get("promql_expr_test", ()))

    assert set(re.findall(r"chronos:[a-z0-9_:]+", asked)) == RECORDED


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_asks_for_what_is_exported_and_for_this_job_only(rule: dict[str, Any]) -> None:
    asked = selectors(rule["expr"])

    assert bool(asked) is (rule.get("alert") != ALWAYS)
    assert asked.keys() <= exported() | RECORDED | MADE_BY_PROMETHEUS
    for name in asked.keys() - RECORDED:
        assert all('job="chronos"' in selector for selector in asked[name]), name


@each_alert
def test_an_alert_says_what_is_wrong_what_to_do_and_where_to_read_on(
    alert: dict[str, Any],
) -> None:
    notes = alert["annotations"]

    assert alert["labels"].keys() == {"severity"}
    severities = {"none"} if alert["alert"] == ALWAYS else {"page", "ticket"}
    assert alert["labels"]["severity"] in severities
    assert notes.keys() == {"summary", "action", "runbook_url"}
    assert notes["summary"].endswith(".")
    assert notes["action"].endswith(".")
    assert notes["runbook_url"].endswith(f"/docs/runbook.md#{alert['alert'].lower()}")


@each_alert
def test_nobody_is_woken_for_what_passes_within_a_minute(alert: dict[str, Any]) -> None:
    if alert["labels"]["severity"] == "page":
        assert seconds(alert["for"]) >= 60


def test_the_runbook_has_a_section_for_each_alert_and_no_other() -> None:
    page = (ROOT / "docs/runbook.md").read_text()
    explained = re.findall(r"^### (\w+)$", page, re.MULTILINE)

    assert sorted(explained) == sorted(alert["alert"] for alert in ALERTS)


@each_alert
def test_a_section_of_the_runbook_answers_the_same_four_questions(alert: dict[str, Any]) -> None:
    section = explanation(alert["alert"])

    questions = re.findall(r"^\*\*(.+?)\*\*", section, re.MULTILINE)

    assert questions == ["Means.", "Look.", "Do.", "Over."]
    assert f"`{alert['labels']['severity']}`" in section


@each_alert
def test_the_runbook_says_how_long_and_from_where_on_an_alert_waits(alert: dict[str, Any]) -> None:
    first = " ".join(explanation(alert["alert"]).partition("**Means.**")[0].split())

    for figure, words in SAID_FIGURES.get(alert["alert"], {}).items():
        assert figure in alert["expr"] + "\n"
        assert words in first
    if "Within" in first:
        # What happened within the last hour is told at once, or when it was counted again.
        assert seconds(alert.get("for", "0m")) <= 300
    elif alert["alert"] == "BacklogForLong":
        assert seconds(alert["for"]) < 1800
    elif alert["alert"] != ALWAYS:
        assert SAID_FOR[alert["for"]] in first


def test_whoever_follows_the_docs_routes_each_alert_to_where_it_belongs() -> None:
    page = (ROOT / "docs/operations.md").read_text()
    [example] = [
        text for text in re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S) if "route:" in text
    ]
    config = yaml.safe_load(example)
    receivers = {receiver["name"] for receiver in config["receivers"]}
    belongs = {"page": "on-call", "ticket": "tracker", "none": "watchdog"}

    for alert in ALERTS:
        labels = {"alertname": alert["alert"], **alert["labels"]}
        route = next(each for each in config["route"]["routes"] if matches(each, labels))
        assert route["receiver"] == belongs[labels["severity"]]
        assert route["receiver"] in receivers


def test_every_query_of_the_runbook_asks_for_what_there_is() -> None:
    page = (ROOT / "docs/runbook.md").read_text()
    queries = re.findall(r"^```promql\n(.*?)^```$", page, re.M | re.S)

    assert queries
    for query in queries:
        assert selectors(query).keys() <= exported() | RECORDED | MADE_BY_PROMETHEUS


def test_every_event_of_the_runbook_is_one_that_is_logged() -> None:
    page = (ROOT / "docs/runbook.md").read_text()
    named = set(re.findall(r"`(\w+\.\w+)`", page)) - {"alerts.yml", "context.cancelled"}

    assert named
    assert named <= {each.name for each in vars(events).values() if isinstance(each, events.Event)}


def test_the_role_of_a_process_is_read_off_the_name_that_found_it() -> None:
    [chronos] = read(DEPLOYED / "prometheus.yml")["scrape_configs"]
    [names] = chronos["dns_sd_configs"]
    [role] = chronos["relabel_configs"]

    found = {re.fullmatch(role["regex"], name)[1] for name in names["names"]}  # type: ignore[index]

    assert chronos["job_name"] == "chronos"
    assert role["target_label"] == "role"
    assert found == set(ROLES.values())
