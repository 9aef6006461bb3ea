"""Kafka deliveries: one message, confirmed by all replicas."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from executor.calls import AttemptError
from executor.delivery.content import Content
from executor.delivery.sender import Delivered, apart, delivery_for, work_of
from jobs.broker.outbox import Outbox, Receipt
from jobs.delivery.config import KafkaDelivery
from jobs.json_text import dumps
from jobs.lifecycle import Job
from jobs.logs import events
from jobs.tracing import spans
from jobs.tracing.spans import Ongoing
from jobs.tracing.traceparent import HEADER
from jobs.tracing.tracer import Kind

logger = logging.getLogger(__name__)

# The outbox gives up before, so that nothing is sent after its job was told to have failed.
_MARGIN_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Message:
    topic: str
    value: bytes
    key: bytes | None
    headers: Mapping[str, bytes]


class KafkaSender:
    """Sends the messages of `kafka` jobs."""

    def __init__(self, outbox: Outbox, *, seconds: float) -> None:
        """
        Args:
            outbox: sends them.
            seconds: how long it tries.
        """
        self._outbox = outbox
        self._seconds = seconds

    async def deliver(self, job: Job) -> Delivered:
        """Send a job's message, and wait until Kafka has it.

        Raises:
            AttemptError: Kafka does not want it, or did not confirm it in time.
        """
        with spans.delivery("send", Kind.PRODUCER, {"messaging.system": "kafka"}) as span:
            return await self._deliver(job, span)

    async def _deliver(self, job: Job, span: Ongoing) -> Delivered:
        message = await apart(work_of(job), partial(_message, job, span.traceparent))
        span.name(f"send {message.topic}", {"messaging.destination.name": message.topic})
        receipt = await self._sent(message)
        if receipt.problem is not None:
            problem = f"topic {message.topic}: {receipt.problem}"
            if receipt.is_final:
                raise AttemptError(problem, error_class="MessageRefused", is_final=True)
            raise AttemptError(problem, error_class="MessageUnconfirmed")
        logger.info(
            "to %s, partition %d, offset %d",
            message.topic,
            receipt.partition,
            receipt.offset,
            extra=events.DELIVERY_SENT(target=message.topic),
        )
        return Delivered(dumps({"partition": receipt.partition, "offset": receipt.offset}))

    async def _sent(self, message: _Message) -> Receipt:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Receipt] = loop.create_future()

        def settle(receipt: Receipt) -> None:
            if not future.done():
                future.set_result(receipt)

        def report(receipt: Receipt) -> None:
            loop.call_soon_threadsafe(settle, receipt)

        self._outbox.send(
            message.topic,
            message.value,
            key=message.key,
            headers=message.headers,
            report=report,
        )
        try:
            async with asyncio.timeout(self._seconds + _MARGIN_SECONDS):
                return await future
        except TimeoutError as exc:
            raise AttemptError(
                f"topic {message.topic}: Kafka's client gave no report",
                error_class="MessageUnconfirmed",
            ) from exc

    async def close(self) -> None:
        """End the outbox."""
        self._outbox.close()


def _message(job: Job, traceparent: str | None) -> _Message:
    delivery = delivery_for(job, KafkaDelivery)
    content = Content(job)
    about = {"chronos-request-id": job.request_id, HEADER: traceparent}
    headers = {
        **{name: text for name, text in about.items() if text is not None},
        **delivery.headers,
        "chronos-job-id": str(job.id),
        "chronos-attempt": str(job.attempts + 1),
    }
    value = content.body(delivery.body)
    key = None if delivery.key is None else content.text(delivery.key, "delivery.key")
    return _Message(
        delivery.topic,
        value,
        None if key is None else key.encode(errors="backslashreplace"),
        {name: text.encode() for name, text in headers.items()},
    )
