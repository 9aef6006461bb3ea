"""Calling a handler, and turning whatever it does into the end of its attempt."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import close_old_connections

from jobs import attempts
from jobs.lifecycle import Finish, Job
from jobs.registry import Context, Fail, HandlerFunction, Retry, Snooze

RESULT_LENGTH: Final = 1_000_000
"""Characters of a result's JSON text, at most."""

logger = logging.getLogger("executor.handler")

JobLogger = logging.LoggerAdapter[logging.Logger]


class AttemptError(Exception):
    """Why an attempt failed, in words that need no name of an exception before them."""


class BadPayload(AttemptError):
    """The stored payload is not a JSON object."""


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
    job_id = str(job.id)
    extra = {"job_id": job_id, "tenant_id": job.tenant_id, "attempt": number}
    timeout = job.timeout_seconds
    return Context(
        job_id=job_id,
        tenant_id=job.tenant_id,
        job_type=job.job_type,
        attempt=number,
        max_attempts=job.max_attempts,
        payload=payload,
        logger=JobLogger(logger, extra),
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
    failure: dict[str, Any]
    try:
        result = attempt()
    except Snooze as exc:
        return attempts.snoozed(job, until=exc.until, started_at=started_at, finished_at=clock())
    except Retry as exc:
        failure = {"error": describe(exc), "after": exc.after}
    except (Fail, BadPayload) as exc:
        failure = {"error": describe(exc), "is_final": True}
    except BaseException as exc:  # noqa: BLE001 - also SystemExit: sys.exit() in a handler fails it
        failure = {"error": describe(exc)}
    else:
        return attempts.completed(job, result=result, started_at=started_at, finished_at=clock())
    return attempts.failed(
        job, started_at=started_at, finished_at=clock(), random=random, **failure
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
