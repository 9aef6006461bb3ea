"""What a load test makes of its measurements."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from jobs.load.fates import Fate
from jobs.load.plan import PAYLOAD, Plan
from jobs.load.report import Client, Report, Spread
from jobs.load.sender import Outcome, Sent

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
BEGAN_AT = 1000.0
MS = timedelta(milliseconds=1)
QUIET = Client(connections=32, cpu_share=0.1, clock_offset=timedelta())


def plan_of(
    jobs: int, *, rate: float | None = 10, due_in: timedelta = timedelta(seconds=0)
) -> Plan:
    return Plan(tenant="t", jobs=jobs, rate=rate, due_in=due_in, job_type="noop", payload=PAYLOAD)


def sent(plan: Plan, number: int, *, takes: float = 0.005, late_by: float = 0.0) -> Sent:
    due_at = BEGAN_AT + plan.submit_after(number).total_seconds()
    sent_at = due_at + late_by
    return Sent(due_at, due_at - 1, sent_at, sent_at + takes, Outcome([number], Counter()))


def fate(
    plan: Plan, number: int, *, status: str = "completed", lag: float = 3, runs: float = 2
) -> Fate:
    """A job that started `lag` milliseconds after it was due."""
    started_at = plan.due_at(number, START) + lag * MS
    finished_at = started_at + runs * MS if status in ("completed", "dlq") else None
    return Fate(status, started_at - MS, started_at, finished_at)


def report_of(
    plan: Plan,
    *,
    requests: Sequence[Sent] | None = None,
    fates: Iterable[Fate] | None = None,
    client: Client = QUIET,
) -> Report:
    numbers = range(plan.jobs)
    if requests is None:
        requests = [sent(plan, number) for number in numbers]
    if fates is None:
        fates = [fate(plan, number) for number in numbers]
    by_key = {plan.key(number): found for number, found in enumerate(fates)}
    return Report.of(plan, requests, by_key, start=START, began_at=BEGAN_AT, client=client)


def test_percentiles_are_values_that_were_measured() -> None:
    assert Spread.of(n / 1000 for n in range(1, 101)) == Spread(50, 95, 99, 100)
    assert Spread.of([0.004]) == Spread(4, 4, 4, 4)
    assert Spread.of([]) is None


def test_a_good_run_is_good_and_says_how_fast_it_was() -> None:
    report = report_of(plan_of(10, rate=10))

    assert report.is_good
    assert report.warnings == []
    assert report.submitted_per_second == pytest.approx(10)
    # The first start and the last end are 902 ms apart.
    assert report.finished_per_second == pytest.approx(10 / 0.902)
    assert report.spreads == {
        "ackMs": Spread(5, 5, 5, 5),
        "startLagMs": Spread(3, 3, 3, 3),
        "createdToStartMs": Spread(1, 1, 1, 1),
        "endToEndMs": Spread(5, 5, 5, 5),
    }


def test_a_dead_letter_is_an_end_too() -> None:
    plan = plan_of(2)

    report = report_of(plan, fates=[fate(plan, 0), fate(plan, 1, status="dlq")])

    assert report.is_good
    assert report.as_document()["dlq"] == 1


@pytest.mark.parametrize("status", ["pending", "queued", "claimed", "running"])
def test_a_job_without_an_end_is_unfinished(status: str) -> None:
    plan = plan_of(2)

    report = report_of(plan, fates=[fate(plan, 0), fate(plan, 1, status=status)])

    assert report.unfinished == 1
    assert not report.is_good


def test_an_accepted_job_that_is_not_found_is_lost() -> None:
    plan = plan_of(2)

    report = report_of(plan, fates=[fate(plan, 0)])

    assert report.lost == 1
    assert not report.is_good


def test_a_refused_job_is_a_problem_and_not_lost() -> None:
    plan = plan_of(2)
    refused = Sent(BEGAN_AT, BEGAN_AT, BEGAN_AT, BEGAN_AT + 1, Outcome((), Counter(["503 busy"])))

    report = report_of(plan, requests=[sent(plan, 0), refused], fates=[fate(plan, 0)])

    assert report.problems == {"503 busy": 1}
    assert report.lost == 0
    assert not report.is_good
    assert "problem: 1 × 503 busy" in report.as_text()


def test_lag_counts_from_the_planned_time_also_when_a_retry_moved_the_job() -> None:
    plan = plan_of(1, due_in=timedelta(seconds=5))

    report = report_of(plan, fates=[fate(plan, 0, lag=40, runs=2000)])

    assert report.spreads["startLagMs"] == Spread(40, 40, 40, 40)
    assert report.spreads["endToEndMs"] == Spread(2040, 2040, 2040, 2040)
    # Until it came due it waited by order.
    assert "createdToStartMs" not in report.spreads


def test_a_client_that_used_a_whole_core_is_named_as_the_limit() -> None:
    busy = Client(connections=32, cpu_share=0.97, clock_offset=timedelta())

    [warning] = report_of(plan_of(3), client=busy).warnings

    assert warning.startswith("This client used 97% of one core")


def test_a_client_that_sends_late_says_so() -> None:
    plan = plan_of(1)

    [warning] = report_of(plan, requests=[sent(plan, 0, late_by=0.03)]).warnings

    assert "left 30 ms late" in warning


def test_busy_connections_and_a_missed_rate_are_told() -> None:
    plan = plan_of(2, rate=10)
    waited = Sent(BEGAN_AT, BEGAN_AT + 3, BEGAN_AT + 3, BEGAN_AT + 4, Outcome([1], Counter()))

    busy, missed = report_of(plan, requests=[sent(plan, 0), waited]).warnings

    assert busy.startswith("For 1 of 2 requests all 32 connections were busy")
    assert missed == "0.5 jobs/s were accepted instead of 10."


def test_a_backlog_that_came_due_too_early_is_told() -> None:
    plan = plan_of(2, rate=None, due_in=timedelta(seconds=1))
    slow = Sent(BEGAN_AT, BEGAN_AT, BEGAN_AT, BEGAN_AT + 2, Outcome([0, 1], Counter()))

    report = report_of(plan, requests=[slow])

    assert report.submitted_per_second == 1
    assert "ackMs" not in report.spreads
    [warning] = report.warnings
    assert "came due 1 s after the start but was stored only after 2.0 s" in warning


def test_a_clock_that_differs_is_told() -> None:
    away = Client(connections=32, cpu_share=0.1, clock_offset=timedelta(seconds=-2))

    [warning] = report_of(plan_of(1), client=away).warnings

    assert warning.startswith("MongoDB's clock is -2000 ms")


def test_the_report_is_json_and_text_also_when_nothing_ran() -> None:
    plan = plan_of(1)
    waiting = Fate("pending", START, None, None)

    report = report_of(plan, fates=[waiting])

    document = json.loads(json.dumps(report.as_document()))
    assert document["finishedPerSecond"] is None
    assert document["startLagMs"] is None
    assert document["unfinished"] == 1
    assert "1 pending" in report.as_text()
