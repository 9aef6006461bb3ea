"""How an attempt ends: the one place that decides between done, again and dead letter."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from jobs.errors import InvalidJob
from jobs.lifecycle import ERROR_LENGTH, Attempt, Finish, Job, Outcome, Response, Status
from jobs.logs import events
from jobs.logs.fields import of_attempt, of_job
from jobs.retry import RetryPolicy

logger = logging.getLogger(__name__)

_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


def completed(
    job: Job,
    *,
    started_at: datetime,
    finished_at: datetime,
    result: str | None = None,
    response: Response | None = None,
) -> Finish:
    """The handler returned.

    Args:
        job: as it was claimed.
        started_at: aware UTC; the same in the other functions.
        finished_at: aware UTC.
        result: JSON text of what it returned; None for nothing.
        response: what the target of a delivery answered.
    """
    attempt = _attempt(job, started_at, finished_at, Outcome.COMPLETED, response=response)
    return Finish(job.id, _claim(job), Status.COMPLETED, job.attempts, attempt, result=result)


def failed(
    job: Job,
    *,
    error: str,
    started_at: datetime,
    finished_at: datetime,
    random: float,
    error_class: str | None = None,
    response: Response | None = None,
    outcome: Outcome = Outcome.FAILED,
    after: timedelta | None = None,
    spread: float = 1.0,
    is_final: bool = False,
) -> Finish:
    """The attempt did not succeed: pending again after the policy's delay, or dead letter.

    Args:
        job: as it was claimed.
        error: what an operator reads.
        started_at: aware UTC.
        finished_at: aware UTC.
        random: in [0, 1), for the policy's jitter.
        error_class: name of the exception, where there was one.
        response: what the target of a delivery answered.
        outcome: failed, timed out or lost.
        after: the delay that the handler asked for; None: the job's policy decides.
        spread: multiplies the delay.
        is_final: no further attempt can succeed.
    """
    attempts = job.attempts + 1
    # A lone surrogate in an exception's text must not break the write of the whole batch.
    error = error[:ERROR_LENGTH].encode("utf-8", "replace").decode()
    attempt = _attempt(job, started_at, finished_at, outcome, error, error_class, response)
    if is_final or attempts >= job.max_attempts:
        return Finish(job.id, _claim(job), Status.DLQ, attempts, attempt, last_error=error)
    delay = policy_of(job).delay(attempts, random) if after is None else after
    return Finish(
        job.id,
        _claim(job),
        Status.PENDING,
        attempts,
        attempt,
        scheduled_at=_later(finished_at, delay, spread),
        last_error=error,
    )


def snoozed(job: Job, *, until: datetime, started_at: datetime, finished_at: datetime) -> Finish:
    """The handler asked to be called later; no attempt is used up."""
    attempt = _attempt(job, started_at, finished_at, Outcome.SNOOZED)
    return Finish(job.id, _claim(job), Status.PENDING, job.attempts, attempt, scheduled_at=until)


def tell_end(job: Job, finish: Finish) -> None:
    """Log how an attempt ended. There are too many that succeed for more than a line at DEBUG.

    Args:
        job: as it was claimed.
        finish: its end, once it is written.
    """
    outcome, error = str(finish.attempt.outcome), finish.attempt.error
    if finish.status is Status.DLQ:
        extra = events.JOB_DEAD(outcome=outcome, error=error, **of_attempt(job))
        logger.warning("the job is a dead letter: %s", error, extra=extra)
    elif error is not None:
        extra = events.ATTEMPT_FAILED(outcome=outcome, error=error, **of_attempt(job))
        logger.info("the attempt failed: %s", error, extra=extra)
    elif logger.isEnabledFor(logging.DEBUG):
        extra = events.ATTEMPT_ENDED(outcome=outcome, **of_attempt(job))
        logger.debug("the attempt ended: %s", outcome, extra=extra)


def _later(at: datetime, delay: timedelta, spread: float) -> datetime:
    try:
        return at + delay * spread
    except OverflowError:
        return _END_OF_TIME


def handed_back(job: Job, *, started_at: datetime, finished_at: datetime) -> Finish:
    """An orderly shutdown interrupted the handler; no attempt is used up."""
    attempt = _attempt(job, started_at, finished_at, Outcome.HANDED_BACK)
    return Finish(
        job.id,
        _claim(job),
        Status.PENDING,
        job.attempts,
        attempt,
        scheduled_at=job.scheduled_at,
    )


def _attempt(
    job: Job,
    started_at: datetime,
    finished_at: datetime,
    outcome: Outcome,
    error: str | None = None,
    error_class: str | None = None,
    response: Response | None = None,
) -> Attempt:
    return Attempt(
        number=job.attempts + 1,
        executor=job.claimed_by or "",
        started_at=started_at,
        finished_at=finished_at,
        outcome=outcome,
        error=error,
        error_class=error_class,
        response=response,
    )


def _claim(job: Job) -> str:
    return job.claim_id or ""


def policy_of(job: Job) -> RetryPolicy:
    """How a job is retried; the default where somebody edited its policy into something else."""
    try:
        return RetryPolicy.from_document(job.retry)
    except InvalidJob as exc:
        # Submission refuses such a policy.
        extra = events.POLICY_UNREADABLE(error=exc, **of_job(job))
        logger.warning("default retry policy: %s", exc, extra=extra)
        return RetryPolicy()
