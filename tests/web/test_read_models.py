"""The stored jobs through Django's ORM: for a team's own queries, never for writing."""

from __future__ import annotations

import pytest

from jobs.dashboard.models import ExecutionRecord, JobRecord, ReadOnly
from jobs.executions import Execution
from jobs.lifecycle import Attempt, Outcome, Status
from jobs.services import Services
from tests.builders import NOW, a_job


def test_jobs_that_the_repository_stored_are_found_by_the_orm(pages: Services) -> None:
    dead = a_job(tenant_id="a", status=Status.DLQ, tags=("x", "y"), last_error="broken")
    pages.repository.jobs.insert([dead, a_job(tenant_id="a"), a_job(tenant_id="b")])

    found = JobRecord.objects.get(tenant_id="a", status="dlq")

    assert (found.id, found.last_error, found.tags) == (dead.id, "broken", ["x", "y"])
    assert found.scheduled_at == dead.scheduled_at
    assert JobRecord.objects.filter(tenant_id="a").count() == 2


def test_executions_are_found_by_the_orm(pages: Services) -> None:
    job = a_job()
    attempt = Attempt(1, "executor-1", NOW, NOW, Outcome.FAILED, "broken", "RuntimeError")
    pages.repository.executions.record(
        [
            Execution(
                id=f"{job.id}-c",
                job_id=job.id,
                tenant_id=job.tenant_id,
                job_type=job.job_type,
                attempt=attempt,
            )
        ]
    )

    found = ExecutionRecord.objects.get(job_id=job.id)

    assert (found.outcome, found.error, found.error_class) == ("failed", "broken", "RuntimeError")


def test_nothing_is_written_through_them(pages: Services) -> None:
    job = a_job()
    pages.repository.jobs.insert([job])
    record = JobRecord.objects.get(id=job.id)

    for write in (
        record.save,
        record.delete,
        JobRecord.objects.all().delete,
        lambda: JobRecord.objects.update(status="dlq"),
        lambda: JobRecord.objects.create(idempotency_key="k"),
        lambda: JobRecord.objects.bulk_create([record]),
    ):
        with pytest.raises(ReadOnly, match=r"jobs\.services"):
            write()

    assert pages.repository.jobs.get(job.id) == job
