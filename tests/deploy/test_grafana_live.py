"""Every panel is asked of a real Prometheus that watches a real stack, first well, then in trouble.

Grafana itself is not needed for that: what it asks is PromQL, with its variables filled in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest
from pymongo import MongoClient

from chronos_site.config import BrokerConfig, StoreConfig
from devstack.mongo import Mongod
from devstack.process import free_port
from jobs import registry
from jobs.broker.topics import ensure_topics, topics_for
from jobs.lifecycle import Job
from jobs.repository import Repository
from tests.builders import a_job, a_template
from tests.conftest import Servers
from tests.monitoring import DEPLOYED, Watcher, read
from tests.processes import RoleProcess, environment_for
from tests.waiting import ANSWER_SECONDS, wait_for
from tools.dashboards.api import API
from tools.dashboards.files import DASHBOARDS
from tools.dashboards.model import Panel, Query

PATIENCE: Final = timedelta(seconds=120)
SETTINGS: Final = {
    # So that fan-out workers have something to show.
    "DISPATCH": "fanout",
    "LEADER_TTL": "2s",
    "REAPER_INTERVAL": "500ms",
    "KAFKA_SESSION_TIMEOUT": "2s",
}
ROLES: Final = (
    # As in docker-compose.yml.
    ("runapi", "--workers", "2"),
    ("runscheduler",),
    ("runfanout",),
    ("runexecutor", "--type", "noop,slow,flaky"),
    ("runreaper",),
)
# Four scrapes, as Grafana has it, would be 4 s: too short to see a job that is tried once.
FILLED_IN: Final = {
    "__rate_interval": "20s",
    "__range": "60s",
    "job_type": ".*",
    "route": ".*",
}
PANELS: Final = [(board, panel) for board in DASHBOARDS for panel in board.panels]

each_panel = pytest.mark.parametrize(
    "panel",
    [panel for _, panel in PANELS],
    ids=[f"{board.name}: {panel.title}" for board, panel in PANELS],
)


@dataclass(frozen=True)
class Watched:
    """A Prometheus, and what it was to see when."""

    prometheus: Watcher
    began_at: datetime
    well_at: datetime
    """When work had been done and nothing was wrong."""
    workers: str
    """Where Prometheus finds the API of several workers."""

    def series(
        self, queries: Sequence[Query], at: datetime | None = None, instance: str = ".*"
    ) -> list[dict[str, Any]]:
        """What a panel would draw: the series of its queries that have a number.

        Args:
            queries: of a panel.
            at: for this moment alone; None: from the beginning until now.
            instance: the processes that were chosen.
        """
        begin, end = (at, at) if at else (self.began_at, datetime.now(UTC))
        return [
            series
            for query in queries
            for series in self.prometheus.query_range(
                _as_grafana_asks(query.expression, instance), begin, end
            )
            if any(value != "NaN" for _, value in series["values"])
        ]


@pytest.fixture(scope="module")
def watched(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A stack that has worked well, and then was given all sorts of trouble."""
    for server in (servers.mongod, servers.kafka, servers.etcd):
        server.wait_ready()
    directory = tmp_path_factory.mktemp("grafana")
    broker = BrokerConfig((servers.kafka.address,))
    ensure_topics(broker, topics_for([*registry.known_types(), "nobody-serves-this"]))
    with _database(servers.mongod) as store:
        repository = Repository.connect(store)
        repository.ensure_indexes()
        environment = environment_for(store, broker, [servers.etcd.address]) | SETTINGS
        repository.jobs.insert([*_late_in_each_minute(repository.clock.now())])
        roles: list[RoleProcess] = []
        watcher = Watcher(directory / "prometheus")
        try:
            for arguments in ROLES:
                roles.append(RoleProcess(*arguments, environment=environment))
            # Only an API of one worker shows all that is drawn.
            alone = environment | {"API_PORT": str(free_port())}
            roles.append(RoleProcess("runapi", environment=alone))
            for role in roles:
                role.wait_ready(PATIENCE)
            watcher.scrape(roles)
            watcher.start()
            watcher.wait_ready()
            began_at = datetime.now(UTC)
            wait_for(lambda: len(watcher.query("up == 1")) == len(roles), deadline=PATIENCE)
            repository.jobs.insert([a_template(scheduled_at=repository.clock.now())])
            _work(repository, environment)
            _wait_for(watcher, *SEEN)
            for rate in WELL:
                # A rate needs two looks: what is there at the first one has not risen.
                _work(repository, environment)
                _wait_for(watcher, rate)
            well_at = wait_for(lambda: _quiet(watcher), deadline=PATIENCE)
            _trouble(repository, environment)
            yield Watched(watcher, began_at, well_at, f"127.0.0.1:{roles[0].metrics_port}")
        finally:
            watcher.kill()
            for role in roles:
                role.clear()
            repository.close()


def _late_in_each_minute(now: datetime) -> Iterator[Job]:
    """A job in this minute and in each of the next: a minute without any has no trigger."""
    minute = now.replace(second=59, microsecond=0)
    for number in range(5):
        yield a_job(scheduled_at=minute + number * timedelta(minutes=1))


SEEN: Final = (
    'executor_jobs_total{job_type="noop"} > 0',
    'executor_jobs_total{job_type="slow"} > 0',
    "api_request_seconds_count > 0",
    "scheduler_dispatch_lag_seconds_count > 0",
    "scheduler_cron_spawned_total > 0",
    "sum(scheduler_fanout_shards) == 256",
    'scheduler_fanout_triggers_sent_total{result="confirmed"} > 0',
    'scheduler_fanout_triggers_received_total{result="heeded"} > 0',
)
WELL: Final = (
    'rate(executor_jobs_total{job_type="noop"}[20s]) > 0',
    'rate(executor_handler_seconds_count{job_type="slow"}[20s]) > 0',
    "rate(api_request_seconds_count[20s]) > 0",
    "rate(scheduler_dispatch_lag_seconds_count[20s]) > 0",
    # Also a leader that leaves the jobs to others ends steps: StepHangs counts on it.
    'rate(scheduler_tick_seconds_count{role="scheduler"}[20s]) > 0',
    'rate(scheduler_tick_seconds_count{role="fanout"}[20s]) > 0',
)


def _work(repository: Repository, environment: Mapping[str, str]) -> None:
    """Jobs that end well, from the API and in the store."""
    with _client(environment) as client:
        for _ in range(20):
            now = repository.clock.now()
            job = {
                "idempotencyKey": uuid4().hex,
                "tenantId": "tenant-a",
                "jobType": "noop",
                "scheduledAt": now.isoformat(),
            }
            client.post("/jobs", json=job).raise_for_status()
            slow = json.dumps({"sleepMs": 100})
            repository.jobs.insert([a_job(job_type="slow", payload=slow, scheduled_at=now)])


def _trouble(repository: Repository, environment: Mapping[str, str]) -> None:
    """Something for each panel that is empty while all is well."""
    fails = json.dumps({"failRate": 1})
    repository.jobs.insert(
        [
            a_job(job_type="nobody-serves-this"),
            *(a_job(job_type="flaky", payload=fails, max_attempts=1) for _ in range(3)),
        ]
    )
    with _client(environment) as client:
        assert client.get("/jobs/none").status_code == httpx.codes.BAD_REQUEST


@each_panel
def test_a_panel_has_data_or_a_reason_for_none(watched: Watched, panel: Panel) -> None:
    """In trouble all of them have data: a panel that never had any would be of no use."""
    if panel.empty_because:
        assert watched.series(panel.queries, at=watched.well_at) == []

    wait_for(
        lambda: watched.series(panel.queries),
        deadline=PATIENCE,
        show=lambda: f"no data for {[query.expression for query in panel.queries]}",
    )
    for query in panel.queries:
        named = set(re.findall(r"{{(\w+)}}", query.legend))
        assert all(named <= series["metric"].keys() for series in watched.series([query]))


@pytest.mark.parametrize("panel", list(API.panels), ids=lambda panel: panel.title)
def test_an_api_of_several_workers_is_drawn_but_for_what_its_panel_says(
    watched: Watched, panel: Panel
) -> None:
    if "several workers does not tell" in panel.shows:
        assert watched.series(panel.queries, instance=watched.workers) == []
    else:
        wait_for(lambda: watched.series(panel.queries, instance=watched.workers), deadline=PATIENCE)


def test_the_choices_of_each_dashboard_are_found(watched: Watched) -> None:
    for board in DASHBOARDS:
        for variable in board.variables:
            [(selector, label)] = re.findall(r"^label_values\((.*), (\w+)\)$", variable.query)
            found = watched.prometheus.query(selector)
            assert any(label in series["metric"] for series in found), variable.query


def test_every_recording_rule_records_something(watched: Watched) -> None:
    """After the panels: by then there was work and trouble."""
    rules = read(DEPLOYED / "rules/recording.yml")["groups"][0]["rules"]

    for rule in rules:
        wait_for(
            partial(watched.prometheus.query, rule["record"]),
            deadline=PATIENCE,
            show=partial(str, rule["record"]),
        )


def _as_grafana_asks(expression: str, instance: str) -> str:
    filled_in = FILLED_IN | {"instance": instance}
    return re.sub(r"\$(\w+)", lambda name: filled_in[name[1]], expression)


def _wait_for(watcher: Watcher, *expressions: str) -> None:
    for expression in expressions:
        wait_for(
            lambda asked=expression: watcher.query(asked),  # type: ignore[misc]
            deadline=PATIENCE,
            show=lambda asked=expression: asked,  # type: ignore[misc]
        )


def _quiet(watcher: Watcher) -> datetime | None:
    """This moment, if no alert is about to fire: on a slow machine some may be for a while."""
    now = datetime.now(UTC)
    return now if watcher.query('absent(ALERTS{severity!="none"})', at=now) else None


def _client(environment: Mapping[str, str]) -> httpx.Client:
    url = f"http://127.0.0.1:{environment['API_PORT']}"
    return httpx.Client(base_url=url, trust_env=False, timeout=ANSWER_SECONDS)


@contextmanager
def _database(mongod: Mongod) -> Iterator[StoreConfig]:
    store = StoreConfig(mongod.location, f"test_{uuid4().hex}")
    yield store
    client: MongoClient[dict[str, Any]] = MongoClient(store.uri)
    with client:
        client.drop_database(store.database)
