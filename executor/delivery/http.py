"""HTTP deliveries: one request, and what its answer means."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Callable
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Final, cast

import httpcore

from executor.calls import AttemptError
from executor.delivery.answer import beginning, excerpt, retry_after
from executor.delivery.connections import Connections
from executor.delivery.failures import FAILURES, failure_of
from executor.delivery.places import Busy
from executor.delivery.request import Requests
from executor.delivery.sender import Delivered, apart, work_of
from jobs import attempts
from jobs.delivery.config import HttpDelivery
from jobs.delivery.statuses import Verdict, classify
from jobs.lifecycle import Job, Response
from jobs.logs import events
from jobs.registry import Snooze
from jobs.tracing import spans
from jobs.tracing.spans import Ongoing
from jobs.tracing.tracer import Kind

logger = logging.getLogger(__name__)

_SNOOZE: Final = timedelta(seconds=5)


class HttpSender:
    """Makes the requests of `http` jobs."""

    def __init__(
        self,
        connections: Connections,
        requests: Requests,
        *,
        clock: Callable[[], datetime],
        patience: float,
    ) -> None:
        """
        Args:
            connections: to the targets.
            requests: makes what is sent.
            clock: the store's time.
            patience: seconds to wait for a free connection to a host.
        """
        self._connections = connections
        self._requests = requests
        self._clock = clock
        self._patience = patience

    async def deliver(self, job: Job) -> Delivered:
        """Make a job's request.

        Raises:
            AttemptError: it was not answered as the job wants it.
            Snooze: no connection was free, or no thread to look the name up; nothing was sent.
        """
        with spans.delivery("HTTP", Kind.CLIENT, {}) as span:
            return await self._deliver(job, span)

    async def _deliver(self, job: Job, span: Ongoing) -> Delivered:
        prepared = await apart(work_of(job), partial(self._requests.prepare, job, span.traceparent))
        delivery, host = prepared.delivery, prepared.host
        attributes = {"http.request.method": delivery.method, "server.address": host}
        span.name(delivery.method, attributes)
        answer: httpcore.Response | None = None
        body = bytearray()
        try:
            async with self._connections.answer(
                prepared.request, patience=self._patience, seconds=delivery.timeout_seconds
            ) as answer:
                await beginning(cast("AsyncIterable[bytes]", answer.stream), body)
        except Busy as exc:
            raise Snooze(self._clock() + _SNOOZE) from exc
        except FAILURES as exc:
            # The status decides. A body that breaks off, or never ends, changes nothing about it.
            if answer is None:
                failure = failure_of(exc, host=host, seconds=delivery.timeout_seconds)
                raise failure from None
        logger.info(
            "%s to %s: %s",
            delivery.method,
            host,
            _named(answer.status),
            extra=events.DELIVERY_ANSWERED(target=host, status=answer.status),
        )
        span.set({"http.response.status_code": answer.status})
        answered = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in answer.headers
        }
        hidden = prepared.hidden
        text = await apart(
            len(body) * len(hidden) + sum(map(len, hidden)),
            partial(excerpt, bytes(body), answered, hidden),
        )
        response = Response(answer.status, text)
        return self._judged(job, delivery, host, response, answered.get("retry-after"))

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    def _judged(
        self, job: Job, delivery: HttpDelivery, host: str, response: Response, wait: str | None
    ) -> Delivered:
        policy = attempts.policy_of(job)
        verdict = classify(
            response.code,
            expected=delivery.expected_statuses,
            retryable=policy.retryable_statuses,
            terminal=policy.terminal_statuses,
        )
        if verdict is Verdict.DONE:
            return Delivered(response=response)
        raise AttemptError(
            f"{host} answered {_named(response.code)}",
            error_class="HttpStatus",
            is_final=verdict is Verdict.TERMINAL,
            after=retry_after(wait, self._clock()),
            response=response,
        )


def _named(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)
