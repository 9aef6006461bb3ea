"""What a load test submits, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobs.load.plan import PAYLOAD, Plan
from jobs.submission import Catalog, job_from

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def plan(*, jobs: int = 4, rate: float | None = 20, due_in: timedelta = timedelta()) -> Plan:
    return Plan(
        tenant="load", jobs=jobs, rate=rate, due_in=due_in, job_type="noop", payload=PAYLOAD
    )


def test_a_rate_is_one_job_per_request_at_even_distances() -> None:
    steady = plan(jobs=3, rate=20)

    assert [list(numbers) for numbers in steady.requests] == [[0], [1], [2]]
    milliseconds = [steady.submit_after(number) / timedelta(milliseconds=1) for number in range(3)]
    assert milliseconds == [0, 50, 100]


def test_a_backlog_is_bulk_requests_at_once() -> None:
    backlog = plan(jobs=2500, rate=None)

    assert [len(numbers) for numbers in backlog.requests] == [1000, 1000, 500]
    assert [number for numbers in backlog.requests for number in numbers] == list(range(2500))
    assert backlog.submit_after(2499) == timedelta()


@pytest.mark.parametrize("rate", [20, None])
def test_jobs_are_due_in_whole_milliseconds_after_their_delay(rate: float | None) -> None:
    later = plan(rate=rate, due_in=timedelta(seconds=10))

    assert later.due_at(0, NOW) == datetime(2026, 3, 1, 12, 0, 10, 123000, tzinfo=UTC)


def test_a_document_is_a_job_with_its_own_key() -> None:
    document = plan().document(2, NOW)

    job = job_from(document, now=NOW, catalog=Catalog({"noop"}))
    assert job.idempotency_key == "load-2"
    assert job.tenant_id == "load"
    assert job.scheduled_at == plan().due_at(2, NOW)
    assert job.payload is not None
    assert len(job.payload) == 100
