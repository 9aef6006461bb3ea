"""What sends the jobs of one type."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from executor.calls import AttemptError
from jobs.delivery.config import HttpDelivery, KafkaDelivery, delivery_of
from jobs.errors import InvalidJob
from jobs.lifecycle import Job, Response

Delivery = TypeVar("Delivery", HttpDelivery, KafkaDelivery)
T = TypeVar("T")

_MOST_WORK: Final = 32 << 10
"""Characters that the event loop reads and writes itself: a millisecond or two."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """An attempt that succeeded."""

    result: str | None = None
    """JSON text, kept as the job's result."""
    response: Response | None = None


class Sender(Protocol):
    """One way to deliver."""

    async def deliver(self, job: Job) -> Delivered:
        """Make one attempt. Raises what `executor.calls.ended_by` makes an end of."""

    async def close(self) -> None:
        """Let go of what it holds; nothing is under way any more."""


async def apart(work: int, call: Callable[[], T]) -> T:
    """Do what only reads and writes texts: in a thread where that takes long.

    Args:
        work: characters read or written, at most.
        call: does it.
    """
    return call() if work <= _MOST_WORK else await asyncio.to_thread(call)


def work_of(job: Job) -> int:
    """What it takes to make what is sent, in characters."""
    delivery, payload = job.delivery or "", job.payload or ""
    # Each value that a template inserts may be the whole payload.
    return len(delivery) + len(payload) * (1 + delivery.count("{{"))


def delivery_for(job: Job, kind: type[Delivery]) -> Delivery:
    """What a job says of its delivery.

    Raises:
        AttemptError: it cannot be used.
    """
    try:
        delivery = delivery_of(job.job_type, job.delivery)
    except InvalidJob as exc:
        raise AttemptError(str(exc), error_class=type(exc).__name__, is_final=True) from exc
    assert isinstance(delivery, kind)  # noqa: S101 - the job type tells which it is
    return delivery
