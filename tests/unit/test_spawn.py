"""Runs of templates, and clones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobs.lifecycle import Status, job_id_for
from jobs.spawn import clone_of, spawn, unix_nanoseconds
from tests.builders import NOW, a_template


@pytest.mark.parametrize(
    ("instant", "nanoseconds"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(2026, 9, 29, 18, 0, tzinfo=UTC), 1_790_704_800_000_000_000),
        # Floats have no room for these last digits.
        (datetime(2026, 9, 29, 18, 0, 0, 1, UTC), 1_790_704_800_000_001_000),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC), 253_402_300_799_999_999_000),
    ],
)
def test_nanoseconds_are_exact(instant: datetime, nanoseconds: int) -> None:
    assert unix_nanoseconds(instant) == nanoseconds


def test_a_run_is_a_one_off_job_that_copies_its_template() -> None:
    template = a_template(
        idempotency_key="nightly",
        payload='{"a":1}',
        priority=4,
        max_attempts=5,
        tags=("x",),
        retry={"strategy": "fixed"},
        timeout_seconds=9,
        timezone="Europe/Berlin",
        attempts=2,
        last_error="old",
    )
    occurrence = NOW + timedelta(minutes=1)

    run = spawn(template, occurrence, NOW, occurrence)

    assert run.idempotency_key == f"nightly-run-{unix_nanoseconds(occurrence)}"
    assert run.id == job_id_for(run.idempotency_key)
    assert not run.is_template
    assert (run.status, run.attempts, run.last_error) == (Status.PENDING, 0, None)
    assert (run.scheduled_at, run.occurrence_at) == (occurrence, occurrence)
    assert run.created_at == run.updated_at == NOW
    assert run.template_id == template.id
    for name in ("tenant_id", "job_type", "payload", "priority", "max_attempts", "tags", "retry"):
        assert getattr(run, name) == getattr(template, name)
    assert run.timeout_seconds == 9
    assert (run.timezone, run.catch_up, run.overlap, run.missed) == (None, None, None, None)


def test_firing_an_occurrence_twice_gives_one_run() -> None:
    template = a_template()

    first = spawn(template, NOW, NOW, NOW)
    again = spawn(template, NOW, NOW + timedelta(minutes=5), NOW)

    assert first.id == again.id


def test_a_clones_key_names_what_it_was_copied_from() -> None:
    job = a_template(cron=None, idempotency_key="nightly")

    clone = clone_of(job, "ab12", due_at=NOW, now=NOW)

    assert clone.idempotency_key == "nightly-copy-ab12"
    assert clone.id == job_id_for(clone.idempotency_key)
