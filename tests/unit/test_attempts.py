"""How an attempt ends: done, again later, or dead letter."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from bson import encode
from hypothesis import given
from hypothesis import strategies as st

from jobs import attempts
from jobs.lifecycle import ERROR_LENGTH, Attempt, Finish, Job, Outcome, Status
from tests.builders import NOW, a_job

STARTED: Final = NOW
ENDED: Final = NOW + timedelta(seconds=3)


def a_started_job(**overrides: Any) -> Job:
    fields = {"status": Status.RUNNING, "claim_id": "c1", "claimed_by": "e1"}
    return a_job(**(fields | overrides))


def failed(job: Job, *, finished_at: datetime = ENDED, **changes: Any) -> Finish:
    arguments: dict[str, Any] = {"error": "why", "random": 0.0} | changes
    return attempts.failed(job, started_at=STARTED, finished_at=finished_at, **arguments)


def test_a_handler_that_returns_completes_the_job() -> None:
    job = a_started_job(attempts=1)

    finish = attempts.completed(job, started_at=STARTED, finished_at=ENDED, result="[1]")

    assert finish == Finish(
        job.id,
        "c1",
        Status.COMPLETED,
        attempts=1,
        attempt=Attempt(2, "e1", STARTED, ENDED, Outcome.COMPLETED),
        result="[1]",
    )


def test_a_failed_attempt_is_repeated_after_the_policys_delay() -> None:
    job = a_started_job()

    assert failed(job) == Finish(
        job.id,
        "c1",
        Status.PENDING,
        attempts=1,
        attempt=Attempt(1, "e1", STARTED, ENDED, Outcome.FAILED, "why"),
        scheduled_at=ENDED + timedelta(seconds=2),
        last_error="why",
    )


@pytest.mark.parametrize(
    ("job", "changes", "seconds"),
    [
        ({"attempts": 1}, {}, 4),
        ({"attempts": 8, "max_attempts": 100}, {}, 300),
        ({"retry": {"strategy": "fixed", "base": 7}}, {}, 7),
        ({"retry": {"strategy": "fixed", "base": 10, "jitter": 1}}, {"random": 0.5}, 5),
        ({}, {"after": timedelta(seconds=50)}, 50),
        ({}, {"after": timedelta(0)}, 0),
        ({}, {"spread": 1.5}, 3),
        # By hand: submission refuses both.
        ({"retry": {"strategy": "sometimes"}}, {}, 2),
        ({"retry": {"base": "1"}}, {}, 2),
    ],
    ids=str,
)
def test_the_next_attempt_is_due_after(
    job: dict[str, Any], changes: dict[str, Any], seconds: int
) -> None:
    finish = failed(a_started_job(**job), **changes)

    assert finish.scheduled_at == ENDED + timedelta(seconds=seconds)


def test_a_delay_beyond_all_dates_ends_at_the_last_one() -> None:
    finish = failed(a_started_job(), after=timedelta.max)

    assert finish.scheduled_at is not None
    assert finish.scheduled_at.year == 9999
    assert encode({"scheduledAt": finish.scheduled_at})


@pytest.mark.parametrize(
    ("made", "allowed", "is_final", "status"),
    [
        (0, 3, False, Status.PENDING),
        (1, 3, False, Status.PENDING),
        (2, 3, False, Status.DLQ),
        (3, 3, False, Status.DLQ),
        (0, 1, False, Status.DLQ),
        (0, 0, False, Status.DLQ),
        (0, 3, True, Status.DLQ),
    ],
)
def test_the_last_attempt_or_a_final_failure_makes_a_dead_letter(
    made: int, allowed: int, is_final: bool, status: Status
) -> None:
    finish = failed(a_started_job(attempts=made, max_attempts=allowed), is_final=is_final)

    assert (finish.status, finish.attempts) == (status, made + 1)
    assert finish.last_error == "why"
    assert (finish.scheduled_at is None) == (status is Status.DLQ)


def test_the_outcome_says_how_it_failed() -> None:
    assert failed(a_started_job(), outcome=Outcome.TIMED_OUT).attempt.outcome is Outcome.TIMED_OUT


def test_a_snoozed_job_uses_up_no_attempt() -> None:
    job = a_started_job(attempts=2, max_attempts=3)
    until = NOW + timedelta(days=1)

    finish = attempts.snoozed(job, until=until, started_at=STARTED, finished_at=ENDED)

    assert (finish.status, finish.attempts, finish.scheduled_at) == (Status.PENDING, 2, until)
    assert finish.attempt == Attempt(3, "e1", STARTED, ENDED, Outcome.SNOOZED)


def test_a_job_handed_back_uses_up_no_attempt_and_is_due_as_before() -> None:
    job = a_started_job(attempts=2, max_attempts=3, scheduled_at=NOW)

    finish = attempts.handed_back(job, started_at=STARTED, finished_at=ENDED)

    assert (finish.status, finish.attempts, finish.scheduled_at) == (Status.PENDING, 2, NOW)
    assert finish.attempt.outcome is Outcome.HANDED_BACK


@given(st.text())
def test_any_error_text_can_be_stored(error: str) -> None:
    finish = failed(a_started_job(), error=error)

    assert encode({"lastError": finish.last_error})
    assert finish.attempt.error == finish.last_error


def test_an_error_text_is_cut_to_what_is_kept() -> None:
    finish = failed(a_started_job(), error="x" * (ERROR_LENGTH + 1))

    assert finish.last_error == "x" * ERROR_LENGTH


def test_a_job_without_a_claim_makes_an_end_that_matches_no_claim() -> None:
    finish = failed(a_job())

    assert finish.claim_id == ""
    assert finish.attempt.executor == ""
