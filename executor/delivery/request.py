"""The request that an `http` job wants made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import httpcore
import httpx

from executor.calls import AttemptError
from executor.delivery.content import Content
from executor.delivery.failures import InvalidHeader
from executor.delivery.sender import delivery_for
from jobs.delivery.config import HttpDelivery
from jobs.delivery.secrets import Secrets
from jobs.delivery.signature import signature_headers
from jobs.errors import SecretUnreadable
from jobs.lifecycle import Job
from jobs.origin import REQUEST_ID
from jobs.tracing.traceparent import HEADER

_MAY_BE_EMPTY: Final = frozenset({"GET", "HEAD", "DELETE"})


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request, and what to know of it."""

    delivery: HttpDelivery
    host: str
    """With its port where it needs to be told."""
    request: httpcore.Request
    hidden: tuple[str, ...]
    """Values of secret headers."""


class Requests:
    """Makes them of jobs."""

    def __init__(self, secrets: Secrets, *, clock: Callable[[], datetime], user_agent: str) -> None:
        """
        Args:
            secrets: opens what is sealed.
            clock: the store's time.
            user_agent: who we say that we are.
        """
        self._secrets = secrets
        self._clock = clock
        self._user_agent = user_agent

    def prepare(self, job: Job, traceparent: str | None) -> Prepared:
        """The request of a job's next attempt. From any thread.

        Args:
            job: whose.
            traceparent: of the span that it is; None: of none.

        Raises:
            AttemptError: it cannot be made.
        """
        delivery = delivery_for(job, HttpDelivery)
        try:
            headers = delivery.open_headers(self._secrets)
            secret = None if delivery.secret is None else self._secrets.open(delivery.secret)
        except SecretUnreadable as exc:
            raise AttemptError(str(exc), error_class=type(exc).__name__) from exc
        url = httpx.URL(delivery.url)
        return Prepared(
            delivery,
            url.netloc.decode(),
            self._request(job, delivery, url, headers, secret, traceparent),
            tuple(headers[name] for name in delivery.secret_headers),
        )

    def _request(
        self,
        job: Job,
        delivery: HttpDelivery,
        url: httpx.URL,
        given: Mapping[str, str],
        secret: str | None,
        traceparent: str | None,
    ) -> httpcore.Request:
        is_empty = (
            job.payload is None and delivery.body is None and delivery.method in _MAY_BE_EMPTY
        )
        body = b"" if is_empty else Content(job).body(delivery.body)
        headers = httpx.Headers({"User-Agent": self._user_agent}, encoding="utf-8")
        if not is_empty:
            headers["Content-Type"] = "application/json"
        if job.request_id is not None:
            headers[REQUEST_ID] = job.request_id
        if traceparent is not None:
            headers[HEADER] = traceparent
        try:
            headers.update(given)
        except UnicodeError:
            raise InvalidHeader from None
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
