"""`manage.py loadtest` on a real stack, and `manage.py bench`, which starts its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from chronos_site import env
from chronos_site.config import BrokerConfig, StoreConfig
from jobs.broker.topics import ensure_topics, topics_for
from jobs.registry import known_types
from jobs.repository import Repository
from tests.processes import RoleProcess
from tests.waiting import wait_for

StartRole = Callable[..., RoleProcess]
BENCH_PATIENCE = timedelta(seconds=240)


@pytest.fixture
def api(start_role: StartRole) -> RoleProcess:
    """The API alone."""
    role = start_role("runapi")
    role.wait_ready()
    return role


@pytest.fixture
def stack(api: RoleProcess, start_role: StartRole, broker_config: BrokerConfig) -> None:
    """The API, a scheduler and an executor."""
    ensure_topics(broker_config, topics_for(known_types()))
    roles = [start_role("runscheduler"), start_role("runexecutor", "--type", "all")]
    for role in roles:
        role.wait_ready()


def report_of(loadtest: RoleProcess) -> dict[str, Any]:
    """The JSON among the output: what is about progress goes to standard error."""
    output = loadtest.output
    report, _ = json.JSONDecoder().raw_decode(output[output.index("{\n") :])
    assert isinstance(report, dict)
    return report


def test_a_rate_is_submitted_and_every_job_is_followed_to_its_end(
    stack: None, start_role: StartRole, repo: Repository
) -> None:
    loadtest = start_role("loadtest", "--rate", "50", "--duration", "2s", "--json")

    assert loadtest.wait() == 0, loadtest.output
    report = report_of(loadtest)
    assert report["jobs"] == report["accepted"] == report["completed"] == 100
    assert report["unfinished"] == report["lost"] == 0
    assert report["problems"] == {}
    for name in ("ackMs", "startLagMs", "createdToStartMs", "endToEndMs"):
        spread = report[name]
        assert 0 <= spread["p50"] <= spread["p95"] <= spread["p99"] <= spread["max"]
    assert report["startLagMs"]["p50"] <= report["endToEndMs"]["p50"]
    assert len(repo.jobs.page(report["tenantId"], limit=1000).jobs) == 100


def test_retries_are_followed_and_dead_letters_are_an_end(
    stack: None, start_role: StartRole
) -> None:
    loadtest = start_role(
        *("loadtest", "--rate=10", "--duration=1s", "--job-type=flaky"),
        '--payload={"failTimes": 1}',
    )

    assert loadtest.wait() == 0, loadtest.output
    assert "finished   10 completed" in loadtest.output


def test_a_backlog_is_drained_after_it_came_due(stack: None, start_role: StartRole) -> None:
    loadtest = start_role("loadtest", "--backlog=2500", "--due-in=5s", "--json")

    assert loadtest.wait() == 0, loadtest.output
    report = report_of(loadtest)
    assert report["rate"] is None
    assert report["accepted"] == report["completed"] == 2500
    assert report["finishedPerSecond"] > 0
    assert report["startLagMs"]["p50"] >= 0


def test_jobs_that_do_not_end_in_time_are_a_failure(
    api: RoleProcess, start_role: StartRole
) -> None:
    loadtest = start_role("loadtest", "--rate=20", "--duration=1s", "--wait=1s", "--json")

    assert loadtest.wait() == 1
    report = report_of(loadtest)
    assert report["accepted"] == report["unfinished"] == 20
    assert report["startLagMs"] is None
    assert "Not every job was accepted and came to its end." in loadtest.output


def test_an_api_that_goes_away_is_told(
    api: RoleProcess, start_role: StartRole, store_config: StoreConfig
) -> None:
    loadtest = start_role("loadtest", "--rate=20", "--duration=6s", "--wait=1s")
    client: MongoClient[dict[str, Any]] = MongoClient(store_config.uri)
    with client:
        jobs = client[store_config.database]["jobs"]
        # The warm-up is behind it.
        wait_for(lambda: jobs.count_documents({}) > 10)
    # With its worker, which may go on for a while without its parent.
    api.clear()

    assert loadtest.wait() == 1
    assert "does not answer (Connection refused)" in loadtest.output
    assert "Traceback" not in loadtest.output


def test_what_cannot_be_tested_is_one_sentence(api: RoleProcess, start_role: StartRole) -> None:
    refused = [
        (["--job-type=nix"], "refuses such a job: 400 jobType must be one of"),
        (["--url=http://127.0.0.1:1"], "http://127.0.0.1:1 does not answer (Connection refused)"),
        (["--url=127.0.0.1"], "--url must be like http://127.0.0.1:8080"),
        (["--rate=0"], "'0' is no number above 0"),
        (["--duration=10"], "must be a duration such as"),
        (["--backlog=5", "--rate=5"], "--backlog has no --rate"),
        (["--rate=1", "--duration=1ms"], "gives no job"),
        (["--payload=[]"], "must be an object"),
    ]

    for arguments, sentence in refused:
        loadtest = start_role("loadtest", *arguments)
        assert loadtest.wait() != 0
        assert sentence in loadtest.output
        assert "Traceback" not in loadtest.output


def test_bench_measures_on_a_stack_of_its_own_and_leaves_nothing(tmp_path: Path) -> None:
    environment = env.for_child(
        DJANGO_SETTINGS_MODULE="chronos_site.settings", DEVSTACK_DIR=str(tmp_path / "devstack")
    )
    bench = RoleProcess(
        *("bench", "--runs=1", "--backlog=400", "--duration=1s"), environment=environment
    )
    try:
        assert bench.wait(BENCH_PATIENCE) == 0, bench.output
    finally:
        bench.clear()

    assert "| measured | run 1 |" in bench.output
    assert "| drain of a backlog of 400, jobs/s |" in bench.output
    assert "| lag of jobs due later at distinct moments, ms |" in bench.output
    assert list((tmp_path / "devstack").iterdir()) == []
