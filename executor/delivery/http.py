"""HTTP deliveries: one request, and what its answer means."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Callable, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final, cast

import httpcore
import httpx

from executor.calls import AttemptError
from executor.delivery.answer import beginning, excerpt, retry_after, veiled
from executor.delivery.connections import Busy, Connections
from executor.delivery.content import Content
from executor.delivery.failures import FAILURES, failure_of
from executor.delivery.sender import Delivered, delivery_for, log_fields
from jobs import attempts
from jobs.delivery.config import HttpDelivery
from jobs.delivery.secrets import Secrets
from jobs.delivery.signature import signature_headers
from jobs.delivery.statuses import Verdict, classify
from jobs.errors import SecretUnreadable
from jobs.lifecycle import Job, Response
from jobs.registry import Snooze

logger = logging.getLogger(__name__)

_MAY_BE_EMPTY: Final = frozenset({"GET", "HEAD", "DELETE"})
_SNOOZE: Final = timedelta(seconds=5)


class HttpSender:
    """Makes the requests of `http` jobs."""

    def __init__(
        self,
        connections: Connections,
        secrets: Secrets,
        *,
        clock: Callable[[], datetime],
        user_agent: str,
        patience: float,
    ) -> None:
        """
        Args:
            connections: to the targets.
            secrets: opens what is sealed.
            clock: the store's time.
            user_agent: who we say that we are.
            patience: seconds to wait for a free connection to a host.
        """
        self._connections = connections
        self._secrets = secrets
        self._clock = clock
        self._user_agent = user_agent
        self._patience = patience

    async def deliver(self, job: Job) -> Delivered:
        """Make a job's request.

        Raises:
            AttemptError: it was not answered as the job wants it.
            Snooze: no connection was free; nothing was sent.
        """
        delivery = delivery_for(job, HttpDelivery)
        try:
            headers = delivery.open_headers(self._secrets)
            secret = None if delivery.secret is None else self._secrets.open(delivery.secret)
        except SecretUnreadable as exc:
            raise AttemptError(str(exc), error_class=type(exc).__name__) from exc
        url = httpx.URL(delivery.url)
        host = url.netloc.decode()
        request = self._request(job, delivery, url, headers, secret)
        answer: httpcore.Response | None = None
        body = bytearray()
        try:
            async with self._connections.answer(
                request, patience=self._patience, seconds=delivery.timeout_seconds
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
            "%s to %s: %s", delivery.method, host, _named(answer.status), extra=log_fields(job)
        )
        answered = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in answer.headers
        }
        hidden = [headers[name] for name in delivery.secret_headers]
        response = Response(answer.status, veiled(excerpt(bytes(body), answered), hidden))
        return self._judged(job, delivery, host, response, answered.get("retry-after"))

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    def _request(
        self,
        job: Job,
        delivery: HttpDelivery,
        url: httpx.URL,
        given: Mapping[str, str],
        secret: str | None,
    ) -> httpcore.Request:
        is_empty = (
            job.payload is None and delivery.body is None and delivery.method in _MAY_BE_EMPTY
        )
        body = b"" if is_empty else Content(job).body(delivery.body)
        headers = httpx.Headers({"User-Agent": self._user_agent}, encoding="utf-8")
        if not is_empty:
            headers["Content-Type"] = "application/json"
        headers.update(given)
        # What follows is ours: submission refuses these names.
        headers["Host"] = url.netloc.decode()
        headers["Accept-Encoding"] = "identity"
        headers["Idempotency-Key"] = str(job.id)
        headers["Chronos-Attempt"] = str(job.attempts + 1)
        if not is_empty:
            headers["Content-Length"] = str(len(body))
        if secret is not None:
            try:
                headers.update(signature_headers(secret, str(job.id), self._clock(), body))
            except ValueError as exc:
                raise AttemptError(str(exc), error_class="InvalidRequest", is_final=True) from exc
        target = httpcore.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )
        return httpcore.Request(delivery.method, target, headers=headers.raw, content=body)

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
