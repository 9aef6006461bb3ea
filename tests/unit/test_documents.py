"""Jobs as documents and back, and documents that somebody edited by hand."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import Decimal128, Regex
from bson.datetime_ms import DatetimeMS

from jobs.errors import UnreadableJob
from jobs.lifecycle import (
    Attempt,
    CatchUp,
    Job,
    Outcome,
    Overlap,
    Response,
    Status,
    job_id_for,
    shard_of,
)
from jobs.repository.documents import BrokenJob, from_document, read_document, to_document
from tests.builders import NOW, a_job, a_template

FULL = Job(
    id=job_id_for("full"),
    idempotency_key="full",
    tenant_id="tenant-a",
    job_type="noop",
    status=Status.RUNNING,
    scheduled_at=NOW,
    created_at=NOW - timedelta(days=1),
    updated_at=NOW + timedelta(seconds=1),
    payload='{"$set": 1}',
    priority=-5,
    attempts=1,
    max_attempts=7,
    cron="* * * * *",
    timezone="Europe/Berlin",
    catch_up=CatchUp.ALL,
    overlap=Overlap.SKIP,
    missed=3,
    skipped=2,
    paused_reason="a move",
    paused_until=NOW,
    paused_by="olga",
    paused_at=NOW,
    template_id=job_id_for("template"),
    occurrence_at=NOW,
    tags=("a", "b"),
    definition="send-invoice",
    definition_version=2,
    request_id="0af7651916cd43dd",
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    overrides='{"priority": 1}',
    delivery='{"url": "https://example.com"}',
    retry={"strategy": "fixed", "base": 2},
    timeout_seconds=1.5,
    queued_at=NOW,
    claimed_by="executor-1",
    claimed_at=NOW,
    claim_id="c1",
    lease_until=NOW,
    started_at=NOW,
    finished_at=NOW,
    expires_at=NOW,
    last_error="why",
    result="[1]",
    history=(
        Attempt(1, "executor-1", NOW, NOW, Outcome.FAILED, "why", "Status", Response(503, "")),
    ),
)


def document(**changes: Any) -> dict[str, Any]:
    return to_document(FULL) | changes


def test_a_job_with_every_field_reads_back_the_same() -> None:
    empty = [field.name for field in fields(Job) if getattr(FULL, field.name) in (None, (), "")]

    assert not empty, "the test must fill every field"
    assert from_document(to_document(FULL)) == FULL


@pytest.mark.parametrize("job", [a_job(), a_template()])
def test_what_does_not_apply_is_absent(job: Job) -> None:
    stored = to_document(job)

    assert None not in stored.values()
    assert "history" not in stored
    assert "tags" not in stored
    assert from_document(stored) == job


def test_a_job_says_its_shard_and_whether_it_runs() -> None:
    job, template = a_job(), a_template()

    assert to_document(job)["shard"] == shard_of(job.id)
    assert to_document(job)["kind"] == "job"
    assert to_document(template)["kind"] == "template"


@pytest.mark.parametrize(
    "name",
    [
        *("_id", "idempotencyKey", "tenantId", "jobType", "priority", "status", "scheduledAt"),
        *("attempts", "maxAttempts", "createdAt", "updatedAt"),
    ],
)
def test_a_missing_field_is_named(name: str) -> None:
    broken = document()
    del broken[name]

    with pytest.raises(UnreadableJob, match=f"{name} is missing"):
        from_document(broken)


NO_FIELD_HOLDS = (None, True, b"x", Decimal128("1"), Regex("x"), DatetimeMS(0))
UNCHECKED = ("shard", "kind")
"""What no reader looks at."""


@pytest.mark.parametrize("name", [name for name in to_document(FULL) if name not in UNCHECKED])
@pytest.mark.parametrize("value", NO_FIELD_HOLDS, ids=lambda value: type(value).__name__)
def test_a_value_of_the_wrong_type_is_refused_with_its_field(name: str, value: object) -> None:
    with pytest.raises(UnreadableJob, match=name) as refused:
        from_document(document(**{name: value}))

    assert str(FULL.id) in str(refused.value) or name == "_id"


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "failed"},
        {"status": ["pending"]},
        {"status": {}},
        {"catchUp": "some"},
        {"overlap": "perhaps"},
        {"attempts": -1},
        {"attempts": 2**63 - 1},
        {"missed": 2**63 - 1},
        {"skipped": 2**31},
        {"priority": 1.5},
        {"maxAttempts": 2**31},
        {"scheduledAt": datetime(1, 1, 1, tzinfo=UTC)},
        {"scheduledAt": "2026-01-15T12:00:00Z"},
        {"timeoutSeconds": float("nan")},
        {"timeoutSeconds": float("inf")},
        {"timeoutSeconds": 0},
        {"timeoutSeconds": -1},
        {"timeoutSeconds": 2**31},
        {"tags": "abc"},
        {"tags": ["a", 1]},
        {"history": {}},
        {"history": [1]},
        {"history": [{}]},
        {"history": [{**to_document(FULL)["history"][0], "startedAt": "yesterday"}]},
        {"history": [{**to_document(FULL)["history"][0], "outcome": "unknown"}]},
        {"history": [{**to_document(FULL)["history"][0], "error": 1}]},
        {"payload": {"message": "an object instead of its text"}},
        {"retry": "fixed"},
        {"_id": "by hand"},
    ],
    ids=str,
)
def test_a_value_that_would_stop_a_role_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UnreadableJob, match="(?i)" + next(iter(changes))):
        from_document(document(**changes))


def test_fields_of_other_programs_are_no_obstacle() -> None:
    assert from_document(document(note="seen by Ann", bucket=17)) == FULL


def test_a_broken_document_is_kept_for_people_to_see() -> None:
    broken = document(attempts="three")

    shown = read_document(broken)

    assert isinstance(shown, BrokenJob)
    assert shown.id == FULL.id
    assert "attempts" in shown.problem
    assert shown.document is broken
    assert read_document(document()) == FULL


def test_an_error_text_stays_short_whatever_the_value_is() -> None:
    with pytest.raises(UnreadableJob) as refused:
        from_document(document(attempts="x" * 1_000_000))

    assert len(str(refused.value)) < 500
