"""What real processes tell: lines of JSON with stable keys, and one trace through all of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from bson import ObjectId

from devstack.process import free_port
from jobs.lifecycle import Job, Status
from jobs.logs import events
from jobs.logs.fields import ALWAYS, SOMETIMES
from jobs.repository import Repository
from tests.builders import a_job
from tests.collector import Collector
from tests.processes import RoleProcess
from tests.waiting import ANSWER_SECONDS, wait_for
from tests.web.client import one_off

Start = Callable[..., RoleProcess]
CountByStatus = Callable[[list[Job]], Counter[str]]

TRACE = "0af7651916cd43dd8448eb211c80319c"
SAMPLED = f"00-{TRACE}-b7ad6b7169203331-01"
ID = "a-clients-request"


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture
def submit(role_env: dict[str, str]) -> Callable[..., str]:
    """Submits a job that is due to a running API; returns its id."""

    def submit(job_type: str) -> str:
        answer = httpx.post(
            f"http://127.0.0.1:{role_env['API_PORT']}/jobs",
            json=one_off(jobType=job_type, scheduledAt=datetime.now(UTC).isoformat()),
            headers={"X-Request-Id": ID, "traceparent": SAMPLED},
            trust_env=False,
            timeout=ANSWER_SECONDS,
        )
        assert answer.status_code == 201, answer.text
        assert answer.headers["X-Request-Id"] == ID
        return str(answer.json()["id"])

    return submit


@pytest.fixture
def finished(repo: Repository) -> Callable[[str], Job]:
    """Waits until a job is completed; returns it."""

    def finished(job_id: str) -> Job:
        def look() -> Job | None:
            job = repo.jobs.get(ObjectId(job_id))
            return job if job.status is Status.COMPLETED else None

        return wait_for(look, show=lambda: repo.jobs.get(ObjectId(job_id)))

    return finished


def lines_of(role: RoleProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in role.output.splitlines()]


def test_every_line_of_every_role_is_json_with_the_stable_keys(
    start: Start, submit: Callable[..., str], finished: Callable[[str], Job]
) -> None:
    told = {"LOG_FORMAT": "json", "LOG_LEVEL": "DEBUG", "DISPATCH": "fanout"}
    roles = {
        "api": start("runapi", **told),
        "scheduler": start("runscheduler", "--name", "the-scheduler", **told),
        "fanout": start("runfanout", **told),
        "executor": start("runexecutor", "--type", "test-log-in-process", **told),
        "reaper": start("runreaper", **told),
    }
    for role in roles.values():
        role.wait_ready()

    job_id = submit("test-log-in-process")
    finished(job_id)
    for role in roles.values():
        assert role.terminate() == 0

    names = {event.name for event in events.ALL}
    for name, role in roles.items():
        lines = lines_of(role)
        assert {"role.stopped"} <= {line["event"] for line in lines} <= names
        for line in lines:
            stable = [key for key in line if key in (*ALWAYS, *SOMETIMES)]
            assert tuple(stable[: len(ALWAYS)]) == ALWAYS
            assert list(line)[: len(stable)] == stable
            assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)
            assert line["role"] == name
        assert len({line["process"] for line in lines}) == 1
    assert lines_of(roles["scheduler"])[0]["process"] == "the-scheduler"

    about = {
        name: [line for line in lines_of(role) if line.get("request_id") == ID]
        for name, role in roles.items()
    }
    assert [(line["event"], line["status"]) for line in about["api"]] == [("request.answered", 201)]
    attempt = {(line["event"], line["logger"], line["message"]) for line in about["executor"]}
    assert attempt >= {
        ("library", "some.library", "attempt 1"),
        ("handler", "executor.handler", "from a thread"),
        ("handler", "executor.handler", "last words"),
    }
    for line in about["executor"]:
        assert line["trace_id"] == TRACE
        assert (line["job_id"], line["job_type"]) == (job_id, "test-log-in-process")
        assert (line["tenant_id"], line["attempt"]) == ("t", 1)
        assert line["execution_id"].startswith(f"{job_id}-")
    queued = [line for line in lines_of(roles["fanout"]) if line["event"] == "jobs.queued"]
    dispatched = [line["request_ids"] for line in queued if job_id in line["job_ids"]]
    assert dispatched
    assert all(each == [ID] for each in dispatched)


def test_a_trace_goes_through_all_processes_to_the_collector(
    start: Start, submit: Callable[..., str], finished: Callable[[str], Job], collector: Collector
) -> None:
    traced = {"TRACING_ENDPOINT": collector.url}
    job_type = "test-trace-in-process"
    roles = [
        start("runapi", **traced),
        start("runscheduler", **traced),
        start("runexecutor", "--type", job_type, "--name", "the-executor", **traced),
    ]
    for role in roles:
        role.wait_ready()

    finished(submit(job_type))

    chain = ("POST /jobs", f"dispatch {job_type}", f"attempt {job_type}", "look up")
    wait_for(
        lambda: set(chain) == collector.spans(TRACE).keys(), show=lambda: collector.spans(TRACE)
    )
    spans = [collector.spans(TRACE)[name] for name in chain]
    assert [span.parent_id for span in spans[1:]] == [span.span_id for span in spans[:-1]]
    assert [span.resource["service.name"] for span in spans] == [
        *("chronos-api", "chronos-scheduler", "chronos-executor", "chronos-executor")
    ]
    assert spans[2].resource["service.instance.id"] == "the-executor"
    assert {span.resource["service.version"] for span in spans} == {"0.1.0"}
    for role in roles:
        assert role.terminate() == 0


def test_a_collector_that_is_away_delays_nothing_and_is_told_once(
    start: Start, repo: Repository, count_by_status: CountByStatus
) -> None:
    traced = {"TRACING_ENDPOINT": f"http://127.0.0.1:{free_port()}/v1/traces"}
    roles = [start("runscheduler", **traced), start("runexecutor", "--type", "noop", **traced)]
    for role in roles:
        role.wait_ready()

    # Attempts that waited for the collector would take 5 s each, and the executor makes 16 at once.
    jobs = [a_job(scheduled_at=repo.clock.now(), traceparent=SAMPLED) for _ in range(400)]
    repo.jobs.insert(jobs)
    wait_for(lambda: count_by_status(jobs) == {Status.COMPLETED: 400})
    for role in roles:
        role.wait_for_line("spans are lost")

    for role in roles:
        assert role.terminate() == 0
        assert role.output.count("spans are lost") == 1
        assert "Traceback" not in role.output


def test_nothing_of_opentelemetry_is_imported_while_tracing_is_off(
    start: Start, repo: Repository, finished: Callable[[str], Job]
) -> None:
    roles = [start("runscheduler"), start("runexecutor", "--type", "test-imported")]
    for role in roles:
        role.wait_ready()
    job = a_job(scheduled_at=repo.clock.now(), job_type="test-imported", traceparent=SAMPLED)
    repo.jobs.insert([job])

    assert finished(str(job.id)).result == "[]"
