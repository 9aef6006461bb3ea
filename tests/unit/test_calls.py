"""Whatever a handler does becomes the end of its attempt; nothing of it reaches the worker."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from executor.calls import RESULT_LENGTH, call, conclude, context_for
from jobs.lifecycle import ERROR_LENGTH, Finish, Job, Outcome, Status
from jobs.registry import Context, Fail, Retry, Snooze
from tests.builders import NOW, a_job

STARTED = NOW + timedelta(seconds=1)
ENDED = NOW + timedelta(seconds=3)


def end_of(handler: Callable[[Context], Any], *, random: float = 0.0, **fields: Any) -> Finish:
    job = a_job(status=Status.RUNNING, claim_id="claim", claimed_by="executor-1", **fields)

    def attempt() -> str | None:
        return call(handler, context_for(job, STARTED, threading.Event()))

    return conclude(job, attempt, started_at=STARTED, clock=lambda: ENDED, random=random)


def raising(error: BaseException) -> Callable[[Context], None]:
    def handler(context: Context) -> None:
        raise error

    return handler


def returning(value: Any) -> Callable[[Context], Any]:
    return lambda context: value


def test_the_context_tells_a_handler_what_it_needs() -> None:
    job = a_job(
        payload='{"a": 1}', attempts=1, max_attempts=5, timeout_seconds=1.5, claim_id="claim"
    )
    cancelled = threading.Event()

    context = context_for(job, STARTED, cancelled)

    assert context.job_id == str(job.id)
    assert (context.attempt, context.max_attempts) == (2, 5)
    assert context.payload == {"a": 1}
    assert context.deadline == STARTED + timedelta(seconds=1.5)
    assert context.cancelled is cancelled
    assert context.logger.extra == {
        "event": "handler",
        "job_id": str(job.id),
        "job_type": job.job_type,
        "tenant_id": job.tenant_id,
        "attempt": 2,
        "execution_id": f"{job.id}-claim",
    }


def test_a_job_without_payload_has_an_empty_one_and_no_deadline() -> None:
    context = context_for(a_job(), STARTED, threading.Event())

    assert context.payload == {}
    assert context.deadline is None


@pytest.mark.parametrize("result", [None, 0, False, "", [], {"a": [1, "\ud800", None]}])
def test_a_result_is_kept_as_json(result: Any) -> None:
    finish = end_of(returning(result))

    assert finish.status is Status.COMPLETED
    assert finish.attempts == 0
    assert finish.attempt.outcome is Outcome.COMPLETED
    assert (finish.attempt.started_at, finish.attempt.finished_at) == (STARTED, ENDED)
    assert finish.result == (None if result is None else json.dumps(result))


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


class Broken(dict[str, Any]):
    """Cannot even be looked into."""

    def items(self) -> Any:
        raise KeyError("nothing here")


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (object(), "the handler's result cannot be stored as JSON: Object of type object"),
        ({1, 2}, "cannot be stored as JSON: Object of type set"),
        (float("nan"), "cannot be stored as JSON: Out of range"),
        ({("a", "b"): 1}, "cannot be stored as JSON: keys must be"),
        (endless(), "cannot be stored as JSON: Circular reference"),
        (deep(), "cannot be stored as JSON"),
        (Broken(a=1), "KeyError: 'nothing here'"),
        ("x" * RESULT_LENGTH, f"over {RESULT_LENGTH}: store it elsewhere"),
    ],
    ids=["object", "set", "nan", "key", "endless", "deep", "broken", "large"],
)
def test_a_result_that_cannot_be_kept_fails_the_attempt(result: Any, reason: str) -> None:
    finish = end_of(returning(result))

    assert finish.status is Status.PENDING
    assert finish.attempts == 1
    assert reason in (finish.last_error or "")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("{", "the stored payload is not JSON"),
        ("[" * 100_000, "the stored payload is not JSON"),
        ("[1]", "the stored payload is not a JSON object"),
    ],
)
def test_a_payload_that_cannot_be_read_is_final(payload: str, reason: str) -> None:
    finish = end_of(returning(None), payload=payload)

    assert finish.status is Status.DLQ
    assert reason in (finish.last_error or "")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad \ud800 text"), "ValueError: bad ? text"),
        (ValueError(), "ValueError"),
        (KeyError("a"), "KeyError: 'a'"),
        (SystemExit("payload.ok is missing"), "SystemExit: payload.ok is missing"),
        (SystemExit(0), "SystemExit: 0"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (MemoryError(), "MemoryError"),
        (Unspeakable(), "Unspeakable: (its text cannot be shown)"),
        (ValueError("nul \0 too"), "ValueError: nul \0 too"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_handler_raises_fails_the_attempt(error: BaseException, text: str) -> None:
    finish = end_of(raising(error))

    assert finish.status is Status.PENDING
    assert finish.attempts == 1
    assert finish.scheduled_at == ENDED + timedelta(seconds=2)
    assert finish.last_error == text
    assert finish.attempt.error == text
    assert finish.attempt.outcome is Outcome.FAILED


def test_a_long_error_is_cut() -> None:
    finish = end_of(raising(ValueError("x" * ERROR_LENGTH)))

    assert len(finish.last_error or "") == ERROR_LENGTH


def test_the_last_attempt_makes_a_dead_letter() -> None:
    finish = end_of(raising(ValueError("no")), attempts=2, max_attempts=3)

    assert finish.status is Status.DLQ
    assert finish.attempts == 3
    assert finish.scheduled_at is None


def test_fail_makes_a_dead_letter_at_once() -> None:
    finish = end_of(raising(Fail("no such invoice")))

    assert finish.status is Status.DLQ
    assert finish.attempts == 1
    assert finish.last_error == "no such invoice"


def test_retry_waits_as_long_as_the_handler_asked() -> None:
    finish = end_of(raising(Retry("busy", after=timedelta(seconds=7))))

    assert finish.status is Status.PENDING
    assert finish.scheduled_at == ENDED + timedelta(seconds=7)
    assert finish.last_error == "busy"


def test_a_negative_time_means_at_once() -> None:
    finish = end_of(raising(Retry(after=timedelta.min)))

    assert finish.scheduled_at == ENDED


def test_retry_without_a_time_follows_the_policy() -> None:
    finish = end_of(raising(Retry()), retry={"strategy": "fixed", "base": 10})

    assert finish.scheduled_at == ENDED + timedelta(seconds=10)


def test_retry_counts_as_an_attempt() -> None:
    finish = end_of(raising(Retry("busy", after=timedelta(0))), attempts=2, max_attempts=3)

    assert finish.status is Status.DLQ


@pytest.mark.parametrize("after", [timedelta.max, timedelta(days=4_000_000)])
def test_a_retry_beyond_the_calendar_is_put_off_to_its_end(after: timedelta) -> None:
    finish = end_of(raising(Retry(after=after)))

    assert finish.status is Status.PENDING
    assert finish.scheduled_at is not None
    assert finish.scheduled_at.year == 9999


def test_snooze_costs_no_attempt() -> None:
    until = NOW + timedelta(hours=1)

    finish = end_of(raising(Snooze(until)), attempts=2, max_attempts=3)

    assert finish.status is Status.PENDING
    assert finish.attempts == 2
    assert finish.scheduled_at == until
    assert finish.attempt.outcome is Outcome.SNOOZED


def _misuse(make: Callable[[], Exception]) -> Callable[[Context], None]:
    def handler(context: Context) -> None:
        raise make()

    return handler


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Retry(after=5), "Retry(after=...) needs a timedelta, not 5"),  # type: ignore[arg-type]
        (lambda: Snooze(datetime(2030, 1, 1)), "needs an aware datetime"),  # noqa: DTZ001
        (lambda: Snooze("tomorrow"), "needs an aware datetime"),  # type: ignore[arg-type]
        (
            lambda: Snooze(datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))),
            "OverflowError",
        ),
    ],
)
def test_a_misused_signal_fails_the_attempt_and_says_why(
    make: Callable[[], Exception], reason: str
) -> None:
    finish = end_of(_misuse(make))

    assert finish.status is Status.PENDING
    assert reason in (finish.last_error or "")


def test_snooze_is_kept_in_utc() -> None:
    until = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))

    assert Snooze(until).until == datetime(2030, 1, 1, 10, tzinfo=UTC)
    assert Snooze(until).until.tzinfo is UTC


@pytest.mark.parametrize(
    ("retry", "random", "delays"),
    [
        (None, 0.0, [2, 4, 8, 16]),
        ({"strategy": "fixed", "base": 3}, 0.0, [3, 3, 3, 3]),
        ({"strategy": "linear", "base": 3, "cap": 8}, 0.0, [3, 6, 8, 8]),
        ({"strategy": "exponential", "base": 1, "factor": 3, "cap": 50}, 0.0, [3, 9, 27, 50]),
        ({"strategy": "fixed", "base": 4, "jitter": 0.5}, 0.5, [3, 3, 3, 3]),
        ({"no": "policy"}, 0.0, [2, 4, 8, 16]),
    ],
)
def test_delays_follow_the_policy(
    retry: dict[str, Any] | None, random: float, delays: list[float]
) -> None:
    ends = [
        end_of(raising(ValueError()), random=random, retry=retry, attempts=n, max_attempts=9)
        for n in range(4)
    ]

    assert [end.scheduled_at for end in ends] == [ENDED + timedelta(seconds=n) for n in delays]


def test_an_end_belongs_to_its_claim() -> None:
    job: Job = a_job(status=Status.RUNNING, claim_id="claim", claimed_by="executor-1")

    finish = conclude(job, lambda: None, started_at=STARTED, clock=lambda: ENDED, random=0.0)

    assert (finish.job_id, finish.claim_id) == (job.id, "claim")
    assert finish.attempt.executor == "executor-1"
    assert finish.attempt.number == 1
