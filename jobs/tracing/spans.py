"""The spans that Chronos makes; none where tracing is off or the trace is not in the sample.

One trace: the API's request → dispatch by the scheduler → attempts in executors → deliveries. Ids
of the spans of jobs are digests of what the job's document holds, so that each process knows the
span above its own, and no job is written for the sake of its trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, Final

from bson import ObjectId

from jobs import origin
from jobs.executions import execution_id
from jobs.lifecycle import Finish, Job, Outcome
from jobs.spawn import unix_nanoseconds
from jobs.tracing import tracer
from jobs.tracing.traceparent import parse
from jobs.tracing.tracer import Attributes, Kind, Moment, Span

_ERROR_LENGTH: Final = 1000
_MILLISECOND: Final = timedelta(milliseconds=1)
_SUCCEEDED: Final = (Outcome.COMPLETED, Outcome.SNOOZED, Outcome.HANDED_BACK)


class Ongoing:
    """A span under way, or none in its place."""

    def __init__(self, span: Span | None, otherwise: str | None = None) -> None:
        """
        Args:
            span: None: nothing is traced.
            otherwise: the `traceparent` to pass on then.
        """
        self._span = span
        self.traceparent = otherwise if span is None else str(span.place)
        """For what happens on its behalf."""

    def name(self, name: str, attributes: Attributes) -> None:
        """Say what it turned out to be."""
        if self._span is not None:
            self._span.rename(name)
            self._span.set(attributes)

    def fail(self, error: str) -> None:
        """Say that it did not succeed."""
        if self._span is not None:
            self._span.fail(error[:_ERROR_LENGTH])

    def set(self, attributes: Attributes) -> None:
        """Say more of it."""
        if self._span is not None:
            self._span.set(attributes)

    def conclude(self, finish: Finish | None) -> None:
        """Say how an attempt ended; None: its end was decided elsewhere."""
        if self._span is None:
            return
        if finish is None:
            self.set({"chronos.outcome": "taken_away"})
            self.fail("cancelled, timed out, interrupted or taken away")
            return
        attempt = finish.attempt
        self.set({"chronos.outcome": str(attempt.outcome), "chronos.status": str(finish.status)})
        if attempt.error_class is not None:
            self.set({"error.type": attempt.error_class})
        if attempt.outcome not in _SUCCEEDED:
            self.fail(attempt.error or str(attempt.outcome))

    def end(self, at: datetime | None = None) -> None:
        """It is over; None: now, by this machine's clock."""
        if self._span is not None:
            self._span.end(at)


def _begin(
    name: str, kind: Kind, above: str | None, attributes: Attributes, **more: Any
) -> Ongoing:
    """A span below another one, where that is in the sample."""
    parent, making = parse(above), tracer.current()
    if making is None or parent is None or not parent.is_sampled:
        return Ongoing(None, above)
    return Ongoing(making.begin(name, kind, parent, attributes, **more))


def _begin_trace(name: str, kind: Kind, attributes: Attributes) -> Ongoing:
    """The first span of a new trace."""
    making = tracer.current()
    if making is None:
        return Ongoing(None)
    span = making.begin(name, kind, None, attributes)
    # What is left out of the sample is not kept in jobs either.
    return Ongoing(span if span.place.is_sampled else None)


@contextmanager
def request(method: str, sent: str | None, request_id: str) -> Iterator[Ongoing]:
    """The span of a request to the API.

    Args:
        method: of HTTP.
        sent: its `traceparent` header.
        request_id: its X-Request-Id.
    """
    place = parse(sent)
    attributes = {"http.request.method": method, "chronos.request.id": request_id}
    if place is None:
        span = _begin_trace(method, Kind.SERVER, attributes)
    else:
        span = _begin(method, Kind.SERVER, str(place), attributes)
    try:
        yield span
    finally:
        span.end()


def fired(template: Job) -> str | None:
    """Begin the trace of a run that a template spawns; its `traceparent`."""
    if tracer.current() is None:
        return None
    attributes = {
        "chronos.template.id": str(template.id),
        "chronos.job.type": template.job_type,
        "chronos.tenant.id": template.tenant_id,
    }
    span = _begin_trace(f"fire {template.job_type}", Kind.PRODUCER, attributes)
    span.end()
    return span.traceparent


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A job that was moved on to queued."""

    id: ObjectId
    job_type: str
    ready_at: datetime
    queued_at: datetime
    traceparent: str | None

    @property
    def span_id(self) -> str:
        return _digest("dispatch", self.id, unix_nanoseconds(_stored(self.queued_at)))


def dispatched(jobs: Sequence[Dispatch], took: timedelta) -> None:
    """The spans of a dispatched batch, from its move to queued to Kafka's confirmation.

    Args:
        jobs: those of which a trace is kept.
        took: what both took together.
    """
    for job in jobs:
        span = _begin(
            f"dispatch {job.job_type}",
            Kind.PRODUCER,
            job.traceparent,
            {"chronos.job.id": str(job.id), "chronos.job.type": job.job_type},
            moments=_waits(("due", job.ready_at), ("queued", job.queued_at)),
            span_id=job.span_id,
            at=job.queued_at,
        )
        span.end(job.queued_at + took)


@contextmanager
def attempt(job: Job, started_at: datetime) -> Iterator[Ongoing]:
    """The span of an attempt.

    Args:
        job: as it was claimed.
        started_at: aware UTC, as kept in the job.
    """
    above = parse(job.traceparent)
    if tracer.current() is None or above is None or not above.is_sampled:
        # Nothing below may be spent on what is not in the sample.
        yield Ongoing(None, job.traceparent)
        return
    link = None
    if job.history:
        earlier = job.history[-1]
        link = replace(above, span_id=_attempt_id(job.id, earlier.number, earlier.started_at))
    if job.queued_at is not None:
        dispatch = Dispatch(job.id, job.job_type, job.ready_at, job.queued_at, None)
        above = replace(above, span_id=dispatch.span_id)
    number = job.attempts + 1
    attributes: dict[str, str | int] = {
        "chronos.job.id": str(job.id),
        "chronos.job.type": job.job_type,
        "chronos.tenant.id": job.tenant_id,
        "chronos.attempt": number,
        "chronos.execution.id": execution_id(job.id, job.claim_id or ""),
    }
    if job.request_id is not None:
        attributes["chronos.request.id"] = job.request_id
    if job.template_id is not None:
        attributes["chronos.template.id"] = str(job.template_id)
    span = _begin(
        f"attempt {job.job_type}",
        Kind.CONSUMER,
        str(above),
        attributes,
        moments=_waits(
            ("due", job.ready_at),
            ("queued", job.queued_at),
            ("claimed", job.claimed_at),
            ("started", started_at),
        ),
        link=link,
        span_id=_attempt_id(job.id, number, started_at),
        at=started_at,
    )
    with tracer.joining(span.traceparent):
        try:
            yield span
        finally:
            span.end()


@contextmanager
def delivery(name: str, kind: Kind, attributes: Attributes) -> Iterator[Ongoing]:
    """The span of what an attempt sends to its target, below that attempt's.

    Args:
        name: as OpenTelemetry's conventions have it: of HTTP the method.
        kind: CLIENT or PRODUCER.
        attributes: what to know of it.
    """
    span = _begin(name, kind, origin.current().traceparent, attributes)
    try:
        yield span
    except Exception as exc:
        span.set({"error.type": type(exc).__name__})
        span.fail(str(exc))
        raise
    finally:
        span.end()


def _attempt_id(job_id: ObjectId, number: int, started_at: datetime) -> str:
    return _digest("attempt", job_id, number, unix_nanoseconds(_stored(started_at)))


def _digest(*parts: object) -> str:
    text = " ".join(map(str, parts))
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _stored(at: datetime) -> datetime:
    """As MongoDB keeps it: whole milliseconds."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _waits(*steps: tuple[str, datetime | None]) -> list[Moment]:
    """An event for each step of a job, with what it waited for since the one before."""
    moments: list[Moment] = []
    for name, at in steps:
        if at is not None:
            wait = (at - moments[-1].at) / _MILLISECOND if moments else None
            attributes = {} if wait is None else {"chronos.wait_ms": max(0.0, wait)}
            moments.append(Moment(name, at, attributes))
    return moments
