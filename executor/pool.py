"""What an executor serves and who runs it: threads for handlers, an event loop for deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from executor.allowance import Allowance
from executor.held import Held
from executor.logs import AttemptLogs
from executor.pace import Pace
from executor.workers import Workers
from executor.writer import Writer
from jobs.registry import Handler


class Crew(Protocol):
    """Runs started jobs to their ends."""

    def submit(self, helds: Iterable[Held]) -> None:
        """Run started jobs, in this order."""

    def withdraw(self) -> list[Held]:
        """Take back the jobs that nobody has taken up. Not after `close`."""

    def expire(self, helds: Iterable[Held], at: float) -> None:
        """End the attempts that outlive their `timeoutSeconds`; `at`: monotonic seconds."""

    def abandon(self, held: Held) -> None:
        """Go on without a job whose end was decided elsewhere; settled by the caller."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True)
class Means:
    """What an executor gives its crew to work with."""

    started: Allowance
    """Permits of started jobs; one is returned as each ends."""
    pace: Pace
    """Told how long jobs take."""
    writer: Writer
    """Given the ends."""
    logs: AttemptLogs
    """Keeps what attempts log."""
    clock: Callable[[], datetime]
    """The store's time."""


@dataclass(frozen=True)
class Pool:
    """Job types that are run by one crew."""

    name: str
    """As metrics show it."""
    job_types: tuple[str, ...]
    slots: int
    """Jobs run at once."""
    hire: Callable[[Means], Crew]
    starts_ahead: bool = True
    """Whether jobs are started before there is a slot for them, where they are fast."""


def handler_pool(handlers: Mapping[str, Handler], slots: int) -> Pool:
    """Handlers, by job type, in so many threads."""

    def hire(means: Means) -> Workers:
        return Workers(
            handlers,
            slots=slots,
            started=means.started,
            pace=means.pace,
            writer=means.writer,
            logs=means.logs,
            clock=means.clock,
        )

    return Pool("handlers", tuple(sorted(handlers)), slots, hire)
