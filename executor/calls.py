"""Calling a handler, and turning whatever it does into the end of its attempt."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import close_old_connections

from jobs import attempts, origin
from jobs.lifecycle import Finish, Job, Response
from jobs.logs import events
from jobs.logs.fields import of_attempt
from jobs.registry import Context, Fail, HandlerFunction, Retry, Snooze

RESULT_LENGTH: Final = 1_000_000
"""Characters of a result's JSON text, at most."""

logger = logging.getLogger("executor.handler")

JobLogger = logging.LoggerAdapter[logging.Logger]


class AttemptError(Exception):
    """Why an attempt failed, in words that need no name of an exception before them.

    Args:
        reason: what an operator reads.
        error_class: a name for this kind of failure; None: the exception's own.
        is_final: no further attempt can succeed.
        after: how long to wait before the next attempt; None: by the job's retry policy.
        response: what the target of a delivery answered.
    """

    def __init__(
        self,
        reason: str,
        *,
        error_class: str | None = None,
        is_final: bool = False,
        after: timedelta | None = None,
        response: Response | None = None,
    ) -> None:
        super().__init__(reason)
        self.error_class = error_class or type(self).__name__
        self.is_final = is_final
        self.after = after
        self.response = response


class BadPayload(AttemptError):
    """The stored payload is not a JSON object."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, is_final=True)


class BadResult(AttemptError):
    """What the handler returned cannot be stored."""


def context_for(job: Job, started_at: datetime, cancelled: Any) -> Context:
    """What the handler of a job receives.

    Raises:
        BadPayload: the stored text is not a JSON object.
    """
    try:
        payload = json.loads(job.payload) if job.payload is not None else {}
    except (ValueError, RecursionError) as exc:
        raise BadPayload(f"the stored payload is not JSON: {exc}") from exc
    if not isinstance(payload, dict):
        raise BadPayload("the stored payload is not a JSON object")
    number = job.attempts + 1
    extra = events.HANDLER_LOGGED(**of_attempt(job))
    timeout = job.timeout_seconds
    return Context(
        job_id=str(job.id),
        tenant_id=job.tenant_id,
        job_type=job.job_type,
        attempt=number,
        max_attempts=job.max_attempts,
        payload=payload,
        logger=JobLogger(logger, extra),
        request_id=job.request_id,
        traceparent=origin.current().traceparent,
        deadline=None if timeout is None else started_at + timedelta(seconds=timeout),
        cancelled=cancelled,
    )


def call(function: HandlerFunction, context: Context) -> str | None:
    """Call a handler; its result as JSON text, None for None.

    Raises:
        BadResult: the result is no JSON or too large.
        BaseException: whatever the handler raised.
    """
    # As Django does before a request: the thread keeps its SQL connections from job to job, and the
    # server may have dropped them meanwhile.
    close_old_connections()
    value = function(context)
    if value is None:
        return None
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise BadResult(f"the handler's result cannot be stored as JSON: {exc}") from exc
    if len(text) > RESULT_LENGTH:
        raise BadResult(
            f"the handler's result has {len(text)} characters of JSON, over {RESULT_LENGTH}:"
            " store it elsewhere and return where"
        )
    return text


def conclude(
    job: Job,
    attempt: Callable[[], str | None],
    *,
    started_at: datetime,
    clock: Callable[[], datetime],
    random: float,
) -> Finish:
    """Run one attempt to its end. Never raises: a handler cannot take its executor along.

    Args:
        job: as it was claimed.
        attempt: returns the result's JSON text, or raises.
        started_at: when it began, aware UTC.
        clock: tells when it ended.
        random: in [0, 1), for the retry policy's jitter.
    """
    try:
        result = attempt()
    except BaseException as exc:  # noqa: BLE001 - also SystemExit: sys.exit() in a handler fails it
        return ended_by(job, exc, started_at=started_at, finished_at=clock(), random=random)
    return attempts.completed(job, result=result, started_at=started_at, finished_at=clock())


def ended_by(
    job: Job,
    error: BaseException,
    *,
    started_at: datetime,
    finished_at: datetime,
    random: float,
) -> Finish:
    """What an exception makes of its attempt. Arguments as in `conclude`."""
    if isinstance(error, Snooze):
        return attempts.snoozed(
            job, until=error.until, started_at=started_at, finished_at=finished_at
        )
    is_final = isinstance(error, Fail)
    after: timedelta | None = None
    response = None
    error_class = type(error).__name__
    if isinstance(error, Retry):
        after = error.after
    elif isinstance(error, AttemptError):
        after, is_final, response = error.after, error.is_final, error.response
        error_class = error.error_class
    return attempts.failed(
        job,
        error=describe(error),
        error_class=error_class,
        response=response,
        after=after,
        is_final=is_final,
        started_at=started_at,
        finished_at=finished_at,
        random=random,
    )


def describe(error: BaseException) -> str:
    """What an operator reads of an exception."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a handler's exception may break even here
        text = "(its text cannot be shown)"
    if isinstance(error, Retry | Fail | AttemptError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
