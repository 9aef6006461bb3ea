"""What makes spans: a tracer of OpenTelemetry's SDK while tracing is on, else nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from jobs.tracing.traceparent import Traceparent, parse

if TYPE_CHECKING:
    from chronos_site.config import TracingConfig

Attributes = Mapping[str, str | int | float | bool]


class Kind(Enum):
    """A span's part in the talk of two processes, as OpenTelemetry names it."""

    SERVER = auto()
    CLIENT = auto()
    PRODUCER = auto()
    CONSUMER = auto()


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened at an instant: an event of a span."""

    name: str
    at: datetime
    attributes: Attributes


class Span(Protocol):
    """A span under way."""

    @property
    def place(self) -> Traceparent:
        """Where it is in its trace."""

    def rename(self, name: str) -> None:
        """Give it a better name."""

    def set(self, attributes: Attributes) -> None:
        """Say more of it."""

    def fail(self, error: str) -> None:
        """Say that it did not succeed."""

    def end(self, at: datetime | None = None) -> None:
        """It is over; None: now, by this machine's clock."""


class Tracer(Protocol):
    """What makes spans."""

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
    ) -> Span:
        """Begin a span.

        Args:
            name: few different ones.
            kind: its part.
            parent: None begins a trace, which the sampler may leave out.
            attributes: what to know of it.
            moments: its events.
            link: another span that it has to do with.
            span_id: 16 hexadecimal digits; None: any.
            at: its beginning; None: now, by this machine's clock.
        """

    def joining(self, place: Traceparent) -> AbstractContextManager[None]:
        """Let the spans that other code begins in the block be children of this place."""

    def close(self) -> None:
        """Send what is left, within some seconds."""


_tracer: Tracer | None = None


def start(config: TracingConfig, role: str, name: str) -> None:
    """Trace from now on, where TRACING_ENDPOINT says where to.

    Args:
        config: where to, and how much.
        role: `chronos-<role>` is the name of the service.
        name: of this process.
    """
    if config.endpoint is not None:
        # Only here: with tracing off, no process pays for the import.
        from jobs.tracing import sdk

        use(sdk.tracer(config, role, name))


def stop() -> None:
    """Send what is left, within some seconds, and trace no more."""
    tracer = _tracer
    use(None)
    if tracer is not None:
        tracer.close()


def use(tracer: Tracer | None) -> None:
    """Have spans made by this one; None: by nobody."""
    global _tracer
    _tracer = tracer


def current() -> Tracer | None:
    """The tracer; None while tracing is off."""
    return _tracer


def joining(traceparent: str | None) -> AbstractContextManager[None]:
    """Let the spans that a handler begins in the block be part of a trace, where it is sampled."""
    place = parse(traceparent)
    if _tracer is None or place is None or not place.is_sampled:
        return nullcontext()
    return _tracer.joining(place)
