"""Spans by OpenTelemetry's SDK, sent by OTLP over HTTP. Imported only while tracing is on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Final

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from chronos_site import VERSION
from jobs.logs import events
from jobs.spawn import unix_nanoseconds
from jobs.tracing.traceparent import Traceparent
from jobs.tracing.tracer import Attributes, Kind, Moment

if TYPE_CHECKING:
    from chronos_site.config import TracingConfig

logger = logging.getLogger(__name__)

_EXPORT_SECONDS: Final = 5.0
_FLUSH_SECONDS: Final = 3.0
_WAITING_SPANS: Final = 8192
_BATCH: Final = 512
_DELAY_MS: Final = 500
_KINDS: Final = {kind: trace.SpanKind[kind.name] for kind in Kind}

_wanted_id: ContextVar[int | None] = ContextVar("wanted_span_id", default=None)


def tracer(
    config: TracingConfig, role: str, name: str, exporter: SpanExporter | None = None
) -> SdkTracer:
    """A tracer that sends its spans to TRACING_ENDPOINT.

    Args:
        config: where to, and how much.
        role: `chronos-<role>` is the name of the service.
        name: of this process.
        exporter: takes the spans instead.
    """
    if exporter is None:
        exporter = OTLPSpanExporter(config.endpoint, timeout=_EXPORT_SECONDS)
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(config.sample)),
        resource=Resource.create(
            {
                "service.name": f"chronos-{role}",
                "service.version": VERSION,
                "service.instance.id": name,
            }
        ),
        id_generator=_Ids(),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(
        BatchSpanProcessor(
            _Exporter(exporter),
            max_queue_size=_WAITING_SPANS,
            schedule_delay_millis=_DELAY_MS,
            max_export_batch_size=_BATCH,
        )
    )
    # For handlers that make spans of their own.
    trace.set_tracer_provider(provider)
    return SdkTracer(provider)


class _Ids(RandomIdGenerator):
    """Random ids, but for spans whose id is known before."""

    def generate_span_id(self) -> int:
        return _wanted_id.get() or super().generate_span_id()


class _Exporter(SpanExporter):
    """Says once when spans cannot be sent, and once when they can again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._is_away = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        is_away = result is not SpanExportResult.SUCCESS
        if is_away and not self._is_away:
            sentence = "spans are lost: nobody takes them at TRACING_ENDPOINT"
            logger.warning(sentence, extra=events.SPANS_LOST())
        if self._is_away and not is_away:
            logger.info("spans are taken again", extra=events.SPANS_TAKEN())
        self._is_away = is_away
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class SdkSpan:
    """A span of the SDK, with our instants."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def place(self) -> Traceparent:
        found = self._span.get_span_context()
        return Traceparent(
            trace.format_trace_id(found.trace_id),
            trace.format_span_id(found.span_id),
            found.trace_flags.sampled,
        )

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(attributes)

    def fail(self, error: str) -> None:
        self._span.set_status(trace.StatusCode.ERROR, error)

    def end(self, at: datetime | None = None) -> None:
        self._span.end(None if at is None else unix_nanoseconds(at))


class SdkTracer:
    """The tracer of a process."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("chronos", VERSION)

    def begin(
        self,
        name: str,
        kind: Kind,
        parent: Traceparent | None,
        attributes: Attributes,
        *,
        moments: Sequence[Moment] = (),
        link: Traceparent | None = None,
        span_id: str | None = None,
        at: datetime | None = None,
    ) -> SdkSpan:
        """See `Tracer`."""
        token = _wanted_id.set(None if span_id is None else int(span_id, 16))
        try:
            span = self._tracer.start_span(
                name,
                context.Context() if parent is None else _below(parent),
                _KINDS[kind],
                attributes,
                [] if link is None else [trace.Link(_context_of(link))],
                None if at is None else unix_nanoseconds(at),
            )
        finally:
            _wanted_id.reset(token)
        for moment in moments:
            span.add_event(moment.name, moment.attributes, unix_nanoseconds(moment.at))
        return SdkSpan(span)

    @contextmanager
    def joining(self, place: Traceparent) -> Iterator[None]:
        """See `Tracer`."""
        token = context.attach(_below(place))
        try:
            yield
        finally:
            context.detach(token)

    def close(self) -> None:
        """See `Tracer`."""
        # By itself it would wait for 30 s for somebody to take the spans.
        flushing = threading.Thread(target=self._provider.shutdown, name="flush", daemon=True)
        flushing.start()
        flushing.join(_FLUSH_SECONDS)


def _context_of(place: Traceparent) -> trace.SpanContext:
    return trace.SpanContext(
        int(place.trace_id, 16),
        int(place.span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(int(place.is_sampled)),
    )


def _below(place: Traceparent) -> context.Context:
    return trace.set_span_in_context(trace.NonRecordingSpan(_context_of(place)), context.Context())
