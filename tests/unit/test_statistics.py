"""What charts are drawn from: counts by stretches of time, and how late attempts started."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import attempts
from jobs.lifecycle import Finish, Job, Outcome
from jobs.statistics import Ledger, Resolution, Stretch, Tally, lag_bucket, percentile
from tests.builders import NOW, a_job

SECOND = timedelta(seconds=1)
MILLISECOND = timedelta(milliseconds=1)


def completed(job: Job, *, at: datetime = NOW) -> tuple[Job, Finish]:
    """An attempt that took a second."""
    return job, attempts.completed(job, started_at=at - SECOND, finished_at=at)


def failed(job: Job, outcome: Outcome = Outcome.FAILED, **how: bool) -> tuple[Job, Finish]:
    return job, attempts.failed(
        job,
        error="no",
        outcome=outcome,
        started_at=NOW - SECOND,
        finished_at=NOW,
        random=0.0,
        **how,
    )


@pytest.mark.parametrize(
    ("resolution", "start"),
    [
        (Resolution.MINUTE, "2026-01-15T13:59:00+00:00"),
        (Resolution.QUARTER, "2026-01-15T13:45:00+00:00"),
        (Resolution.TWO_HOURS, "2026-01-15T12:00:00+00:00"),
    ],
)
def test_a_stretch_begins_at_a_round_time(resolution: Resolution, start: str) -> None:
    at = datetime.fromisoformat("2026-01-15T13:59:59.999+00:00")

    assert resolution.start_of(at) == datetime.fromisoformat(start)
    assert resolution.start_of(datetime.fromisoformat(start)) == datetime.fromisoformat(start)


@given(st.integers(1, 7 * 86_400_000))
def test_a_lag_is_told_within_a_fifth(milliseconds: int) -> None:
    lag = timedelta(milliseconds=milliseconds)

    told = percentile({lag_bucket(lag): 1}, 0.5)

    assert told is not None
    assert abs(told - lag) <= 0.2 * lag


def test_what_starts_early_or_at_once_has_no_lag() -> None:
    assert lag_bucket(-SECOND) == lag_bucket(timedelta(0)) == 0
    assert percentile({0: 3}, 0.99) == timedelta(0)


def test_what_starts_years_late_is_counted_with_what_is_days_late() -> None:
    assert lag_bucket(timedelta(days=20_000)) == lag_bucket(timedelta(days=13))


def test_a_percentile_is_what_so_many_did_not_exceed() -> None:
    lags = Counter(lag_bucket(timedelta(milliseconds=each)) for each in [5] * 95 + [4000] * 5)

    half, most, nearly_all = (percentile(lags, share) for share in (0.5, 0.95, 0.99))

    assert half == most
    assert half is not None
    assert half < 6 * MILLISECOND
    assert nearly_all is not None
    assert nearly_all > 3 * SECOND
    assert percentile({}, 0.5) is None


def test_each_attempt_counts_for_its_tenant_and_for_all_in_each_resolution() -> None:
    ledger = Ledger()
    ledger.note([completed(a_job()), completed(a_job(tenant_id="tenant-b"))])

    taken = ledger.take()

    counted = {
        (stretch.resolution, stretch.tenant_id): tally.completed for stretch, tally in taken.items()
    }
    assert counted == {
        (resolution, tenant): count
        for resolution in Resolution
        for tenant, count in (("tenant-a", 1), ("tenant-b", 1), (None, 2))
    }
    assert ledger.take() == {}


def test_attempts_of_different_minutes_meet_in_the_same_quarter() -> None:
    ledger = Ledger()
    ledger.note(completed(a_job(), at=NOW + minute * timedelta(minutes=1)) for minute in range(3))

    taken = ledger.take()

    minute = taken[Stretch(Resolution.MINUTE, NOW, "noop", None)]
    quarter = taken[Stretch(Resolution.QUARTER, NOW, "noop", "tenant-a")]
    assert minute.completed == 1
    assert quarter.completed == 3
    assert quarter.milliseconds == 3000
    assert sum(quarter.lags.values()) == 3


def test_failures_and_dead_letters_are_told_apart() -> None:
    tally, job = Tally(), a_job()

    for outcome in (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.LOST):
        tally.note(*failed(job, outcome))
    tally.note(*failed(job, is_final=True))

    assert (tally.completed, tally.failed, tally.dead, tally.ended) == (0, 4, 1, 4)


def test_what_was_snoozed_or_handed_back_has_started_and_not_ended() -> None:
    tally, job = Tally(), a_job()

    tally.note(job, attempts.handed_back(job, started_at=NOW, finished_at=NOW))
    tally.note(job, attempts.snoozed(job, until=NOW, started_at=NOW, finished_at=NOW))

    assert tally == Tally(lags=Counter({0: 2}))
