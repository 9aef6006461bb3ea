"""One trace from the request to the target, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from bson import ObjectId
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from chronos_site.config import BrokerConfig, DeliveryConfig, ExecutorConfig, TracingConfig
from executor.delivery.pool import delivery_pool
from executor.executor import Executor
from jobs import services
from jobs.broker.publisher import Publisher
from jobs.broker.topics import ensure_topics, topics_for
from jobs.errors import StoreUnavailable
from jobs.lifecycle import Job, Status
from jobs.origin import Origin, acting_for
from jobs.registry import Context, Retry
from jobs.repository import Repository
from jobs.repository.executions import Wanted
from jobs.repository.nodes import Node
from jobs.services import Services
from jobs.tracing import sdk, tracer
from scheduler.dispatcher import Dispatcher
from scheduler.firing import Firing
from scheduler.scheduler import Scheduler
from tests.builders import NOW, a_template
from tests.deliveries import LOOPBACK
from tests.roles.test_kafka_delivery import attempts as kafka_attempts
from tests.roles.test_kafka_delivery import kafka_job, messages
from tests.targets import Behave, Target, answer, sends
from tests.waiting import wait_for
from tests.web.client import Api, body_of, one_off

TRACE = "0af7651916cd43dd8448eb211c80319c"
CLIENTS_SPAN = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{CLIENTS_SPAN}-01"
UNSAMPLED = f"00-{TRACE}-{CLIENTS_SPAN}-00"
RETRIES_AT_ONCE = {"strategy": "fixed", "baseSeconds": 0}

InsertJobs = Callable[..., list[Job]]
WaitUntilAll = Callable[..., list[Job]]
StartExecutor = Callable[..., Executor]


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    """Takes the spans of this process, which is all roles at once."""
    exporter = InMemorySpanExporter()
    made = sdk.tracer(TracingConfig(), "test", "test-1", exporter)
    tracer.use(made)
    yield exporter
    tracer.use(None)
    made.close()


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Callable[..., dict[str, ReadableSpan]]:
    """Waits until there are spans of these names, each once; gives all that there are by then."""
    exporter.clear()

    def wait(*names: str) -> dict[str, ReadableSpan]:
        def named() -> list[str]:
            return sorted(span.name for span in exporter.get_finished_spans())

        wait_for(lambda: named() == sorted(names), show=named)
        return {span.name: span for span in exporter.get_finished_spans()}

    return wait


@pytest.fixture
def api(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> Api:
    made = Services(repo, frozenset({"http", "noop"}))
    monkeypatch.setattr(services, "default", lambda: made)
    return Api()


@pytest.fixture
def start_couriers(repo: Repository, broker_config: BrokerConfig) -> Iterator[Callable[[], None]]:
    """Starts an executor of HTTP deliveries."""
    started: list[Executor] = []

    def start() -> None:
        ensure_topics(broker_config, topics_for(["http"]))
        delivery = DeliveryConfig(allowed_networks=LOOPBACK)
        pool = delivery_pool(["http"], delivery, broker_config, name="c", user_agent="Chronos")
        started.append(Executor("c", ExecutorConfig(), broker_config, repo, pool))

    yield start
    for executor in started:
        executor.close()


def id_of(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return trace.format_span_id(context.span_id)


def trace_of(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return trace.format_trace_id(context.trace_id)


def parent_of(span: ReadableSpan) -> str | None:
    return trace.format_span_id(span.parent.span_id) if span.parent else None


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def test_one_trace_leads_from_the_client_to_the_target(
    api: Api,
    repo: Repository,
    spans: Callable[..., dict[str, ReadableSpan]],
    start_scheduler: Callable[..., Scheduler],
    start_couriers: Callable[[], None],
    start_target: Callable[[Behave], Target],
    wait_until_all: WaitUntilAll,
) -> None:
    target = start_target(sends(answer(200)))
    start_couriers()
    start_scheduler()
    document = one_off(
        jobType="http",
        delivery={"url": target.url},
        scheduledAt=repo.clock.now().isoformat(),
    )

    headers = {"traceparent": SAMPLED, "X-Request-Id": "request-1"}
    submitted = body_of(api.call("POST", "/jobs", document, headers=headers))
    stored = repo.jobs.get(ObjectId(submitted["id"]))
    [job] = wait_until_all([stored], Status.COMPLETED)

    names = ("POST /jobs", "dispatch http", "attempt http", "POST")
    found = spans(*names)
    chain = [found[name] for name in names]
    assert {trace_of(span) for span in chain} == {TRACE}
    assert parent_of(chain[0]) == CLIENTS_SPAN
    assert [parent_of(below) for _, below in pairwise(chain)] == [
        id_of(above) for above, _ in pairwise(chain)
    ]
    assert [span.kind.name for span in chain] == ["SERVER", "PRODUCER", "CONSUMER", "CLIENT"]
    assert job.traceparent == f"00-{TRACE}-{id_of(chain[0])}-01"
    [request] = target.requests
    assert request.headers["traceparent"] == f"00-{TRACE}-{id_of(chain[3])}-01"
    assert request.headers["x-request-id"] == "request-1"

    server, dispatch, attempt, client = map(attributes_of, chain)
    assert server == {
        "http.request.method": "POST",
        "http.route": "/jobs",
        "http.response.status_code": 201,
        "chronos.request.id": "request-1",
    }
    assert dispatch == {"chronos.job.id": str(job.id), "chronos.job.type": "http"}
    [execution], _ = repo.executions.page(Wanted(job_id=job.id), limit=2)
    assert attempt == {
        "chronos.job.id": str(job.id),
        "chronos.job.type": "http",
        "chronos.tenant.id": "t",
        "chronos.request.id": "request-1",
        "chronos.attempt": 1,
        "chronos.execution.id": execution.id,
        "chronos.outcome": "completed",
        "chronos.status": "completed",
    }
    assert client == {
        "http.request.method": "POST",
        "server.address": f"127.0.0.1:{target.port}",
        "http.response.status_code": 200,
    }
    assert_tells_the_waits(chain[2], job)
    assert [event.name for event in chain[1].events] == ["due", "queued"]


def assert_tells_the_waits(span: ReadableSpan, job: Job) -> None:
    """The events of an attempt are where and how long its job waited."""
    steps = [
        ("due", job.ready_at),
        ("queued", job.queued_at),
        ("claimed", job.claimed_at),
        ("started", job.started_at),
    ]
    told = [(event.name, event.timestamp // 1_000_000) for event in span.events]
    assert told == [(name, round(at.timestamp() * 1000)) for name, at in steps if at]
    instants = [at for _, at in steps if at]
    waits = [(later - earlier) / timedelta(milliseconds=1) for earlier, later in pairwise(instants)]
    attributes = [event.attributes or {} for event in span.events]
    assert attributes[0] == {}
    assert [each["chronos.wait_ms"] for each in attributes[1:]] == [
        max(0.0, wait) for wait in waits
    ]


def test_every_attempt_is_in_the_trace_and_linked_with_the_one_before(
    exporter: InMemorySpanExporter,
    start_scheduler: Callable[..., Scheduler],
    start_executor: StartExecutor,
    insert: InsertJobs,
    wait_until_all: WaitUntilAll,
    job_type: str,
) -> None:
    exporter.clear()

    def handler(context: Context) -> None:
        if context.attempt < 3:
            raise Retry(f"attempt {context.attempt}", after=timedelta(0))

    start_executor(handler)
    start_scheduler()
    wait_until_all(insert(1, traceparent=SAMPLED), Status.COMPLETED)

    def named(name: str) -> list[ReadableSpan]:
        found = [s for s in exporter.get_finished_spans() if s.name == f"{name} {job_type}"]
        return sorted(found, key=lambda span: span.start_time or 0)

    wait_for(lambda: len(named("attempt")) == len(named("dispatch")) == 3)
    attempts, dispatches = named("attempt"), named("dispatch")
    assert {trace_of(span) for span in [*attempts, *dispatches]} == {TRACE}
    assert [parent_of(span) for span in dispatches] == [CLIENTS_SPAN] * 3
    assert [parent_of(span) for span in attempts] == [id_of(span) for span in dispatches]
    linked = [[trace.format_span_id(e.context.span_id) for e in span.links] for span in attempts]
    assert linked == [[], [id_of(attempts[0])], [id_of(attempts[1])]]
    assert [attributes_of(span)["chronos.attempt"] for span in attempts] == [1, 2, 3]
    assert [attributes_of(span)["chronos.outcome"] for span in attempts] == [
        *("failed", "failed", "completed")
    ]
    assert [(span.status.is_ok, span.status.description) for span in attempts] == [
        *((False, "attempt 1"), (False, "attempt 2"), (True, None))
    ]
    assert attributes_of(attempts[0])["error.type"] == "Retry"


def test_what_a_handler_traces_and_submits_is_part_of_the_trace(
    spans: Callable[..., dict[str, ReadableSpan]],
    api: Api,
    repo: Repository,
    start_executor: StartExecutor,
    queue: InsertJobs,
    wait_until_all: WaitUntilAll,
    job_type: str,
) -> None:
    told: list[Context] = []

    def handler(context: Context) -> str:
        told.append(context)
        with trace.get_tracer("a handler's own").start_as_current_span("look up"):
            follow_up = services.default().submit(one_off(idempotencyKey=f"{context.job_id}-next"))
        return str(follow_up.id)

    start_executor(handler)
    [job] = wait_until_all(queue(1, traceparent=SAMPLED, request_id="request-1"), Status.COMPLETED)

    found = spans(f"attempt {job_type}", "look up")
    attempt, own = found[f"attempt {job_type}"], found["look up"]
    assert (trace_of(own), parent_of(own)) == (TRACE, id_of(attempt))
    [context] = told
    assert context.request_id == "request-1"
    assert context.traceparent == f"00-{TRACE}-{id_of(attempt)}-01"
    next_job = repo.jobs.get(ObjectId(str(job.result).strip('"')))
    assert (next_job.request_id, next_job.traceparent) == ("request-1", context.traceparent)


def test_a_dispatch_whose_spans_cannot_be_made_succeeds_and_says_so_once(
    exporter: InMemorySpanExporter,
    repo: Repository,
    publisher: Publisher,
    insert: InsertJobs,
    job_type: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    exporter.clear()
    now = repo.clock.now()
    repo.nodes.report(Node("one", "executor", now, (job_type,), 100), now=now)
    dispatcher = Dispatcher(repo, publisher, job_types=[job_type], batch=1)
    read = repo.dispatch.traceparents

    def fail(ids: Sequence[ObjectId]) -> dict[ObjectId, str]:
        raise StoreUnavailable("MongoDB does not answer.")

    monkeypatch.setattr(repo.dispatch, "traceparents", fail)
    insert(3, traceparent=SAMPLED)
    counts = [dispatcher.step(repo.clock.now()).count for _ in range(2)]
    monkeypatch.setattr(repo.dispatch, "traceparents", read)
    counts.append(dispatcher.step(repo.clock.now()).count)

    assert counts == [1, 1, 1]
    assert caplog.text.count("dispatches are not traced, for now: MongoDB does not answer") == 1
    wait_for(lambda: exporter.get_finished_spans())
    assert [span.name for span in exporter.get_finished_spans()] == [f"dispatch {job_type}"]


@pytest.mark.parametrize("traceparent", [UNSAMPLED, None])
def test_what_is_not_in_the_sample_leaves_no_span(
    exporter: InMemorySpanExporter,
    start_scheduler: Callable[..., Scheduler],
    start_executor: StartExecutor,
    insert: InsertJobs,
    wait_until_all: WaitUntilAll,
    traceparent: str | None,
) -> None:
    exporter.clear()
    passed_on: list[str | None] = []
    start_executor(lambda context: passed_on.append(context.traceparent))
    start_scheduler()

    wait_until_all(insert(1, traceparent=traceparent), Status.COMPLETED)
    # They go out in their order.
    last = insert(1, traceparent=SAMPLED)
    wait_until_all(last, Status.COMPLETED)
    wait_for(lambda: len(exporter.get_finished_spans()) >= 2)

    ids = {attributes_of(span)["chronos.job.id"] for span in exporter.get_finished_spans()}
    assert ids == {str(last[0].id)}
    assert passed_on[0] == traceparent


def test_a_request_begins_a_trace_where_its_client_has_none(
    api: Api, spans: Callable[..., dict[str, ReadableSpan]]
) -> None:
    job = api.submit()
    api.get("/healthz")

    span = spans("POST /jobs")["POST /jobs"]
    assert span.parent is None
    assert job["traceparent"] == f"00-{trace_of(span)}-{id_of(span)}-01"


def test_a_request_that_is_left_out_of_the_sample_leaves_nothing_in_its_job(
    api: Api, exporter: InMemorySpanExporter
) -> None:
    before, nobody = tracer.current(), InMemorySpanExporter()
    unwilling = sdk.tracer(TracingConfig(sample=0), "test", "test-2", nobody)
    tracer.use(unwilling)
    try:
        job = api.submit()
    finally:
        tracer.use(before)
        unwilling.close()

    assert "traceparent" not in job
    assert nobody.get_finished_spans() == ()


def test_each_run_that_cron_spawns_has_a_trace_of_its_own(
    exporter: InMemorySpanExporter, repo: Repository, job_type: str
) -> None:
    exporter.clear()
    template = a_template(job_type=job_type, scheduled_at=NOW, traceparent=SAMPLED, request_id="r")
    assert repo.jobs.insert([template]) == [True]
    firing = Firing(repo, batch=100, grace=timedelta(minutes=1))

    for minutes in range(2):
        firing.step(NOW + timedelta(minutes=minutes))

    found = repo.jobs.page(template.tenant_id, limit=10, job_type=job_type).jobs
    runs = [each for each in found if isinstance(each, Job) and each.template_id]
    fires = wait_for(
        lambda: (
            [s for s in exporter.get_finished_spans() if s.name == f"fire {job_type}"][1:]
            and exporter.get_finished_spans()
        )
    )
    assert sorted(str(run.traceparent) for run in runs) == sorted(
        f"00-{trace_of(span)}-{id_of(span)}-01" for span in fires
    )
    assert [span.parent for span in fires] == [None, None]
    assert len({trace_of(span) for span in fires} | {TRACE}) == 3
    assert {attributes_of(span)["chronos.template.id"] for span in fires} == {str(template.id)}
    assert [run.request_id for run in runs] == [None, None]


def test_a_kafka_delivery_carries_the_trace_in_its_headers(
    spans: Callable[..., dict[str, ReadableSpan]], broker_config: BrokerConfig, topic: str
) -> None:
    with acting_for(Origin("request-1", SAMPLED)):
        kafka_attempts(broker_config, kafka_job(topic, request_id="request-1"))

    span = spans(f"send {topic}")[f"send {topic}"]
    [message] = messages(broker_config, topic, 1)
    headers = dict(message.headers() or [])
    assert headers["traceparent"] == f"00-{TRACE}-{id_of(span)}-01".encode()
    assert headers["chronos-request-id"] == b"request-1"
    assert parent_of(span) == CLIENTS_SPAN
    assert attributes_of(span)["messaging.destination.name"] == topic


def test_a_delivery_that_fails_says_so_in_its_span(
    spans: Callable[..., dict[str, ReadableSpan]], broker_config: BrokerConfig
) -> None:
    with acting_for(Origin(None, SAMPLED)):
        kafka_attempts(broker_config, kafka_job("no such topic"))

    span = spans("send")["send"]
    assert not span.status.is_ok
    assert attributes_of(span)["error.type"] == "AttemptError"


@pytest.fixture
def topic(broker_config: BrokerConfig, job_type: str) -> str:
    """A topic of the test's own."""
    ensure_topics(broker_config, [job_type])
    return job_type


def test_an_attempt_whose_end_was_decided_elsewhere_says_so(
    spans: Callable[..., dict[str, ReadableSpan]],
    start_executor: StartExecutor,
    queue: InsertJobs,
    wait_until_all: WaitUntilAll,
    job_type: str,
) -> None:
    start_executor(lambda context: context.cancelled.wait(60) and None)

    jobs = queue(1, traceparent=SAMPLED, timeout_seconds=0.1, max_attempts=1)
    wait_until_all(jobs, Status.DLQ)

    span = spans(f"attempt {job_type}")[f"attempt {job_type}"]
    assert attributes_of(span)["chronos.outcome"] == "taken_away"
    assert not span.status.is_ok
