"""Submitted documents: what is accepted, and which sentence refuses the rest."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidJob
from jobs.fields import FIELDS
from jobs.lifecycle import CatchUp, Job, Overlap, Status, job_id_for
from jobs.submission import Catalog, job_from

NOW = datetime(2026, 9, 29, 18, 0, 0, 123_000, UTC)
TYPES = frozenset({"noop", "log-message"})
ONE_OFF = {
    "idempotencyKey": "key",
    "tenantId": "tenant-a",
    "jobType": "noop",
    "scheduledAt": "2026-09-29T18:00:00Z",
}
RECURRING = {
    "idempotencyKey": "key",
    "tenantId": "tenant-a",
    "jobType": "noop",
    "cron": "0 2 * * *",
}


def submit(document: object) -> Job:
    return job_from(document, now=NOW, catalog=Catalog(TYPES))


def refusal(document: object) -> str:
    with pytest.raises(InvalidJob) as caught:
        submit(document)
    return str(caught.value)


def test_a_one_off_job_is_pending_with_the_defaults() -> None:
    assert submit(ONE_OFF) == Job(
        id=job_id_for("key"),
        idempotency_key="key",
        tenant_id="tenant-a",
        job_type="noop",
        status=Status.PENDING,
        scheduled_at=datetime(2026, 9, 29, 18, 0, tzinfo=UTC),
        created_at=NOW,
        updated_at=NOW,
        priority=0,
        attempts=0,
        max_attempts=3,
    )


def test_every_field_reaches_the_job() -> None:
    job = submit(
        {
            **RECURRING,
            "timezone": "Europe/Berlin",
            "catchUp": "all",
            "overlap": "skip",
            "payload": {"b": 1.0, "a": [None, "ü"]},
            "priority": -5,
            "maxAttempts": 7,
            "tags": ["billing", "nightly"],
            "retry": {"strategy": "fixed", "base": 2},
            "timeoutSeconds": 1.5,
        }
    )

    assert (job.cron, job.timezone) == ("0 2 * * *", "Europe/Berlin")
    assert (job.catch_up, job.overlap) == (CatchUp.ALL, Overlap.SKIP)
    assert job.payload == '{"b":1.0,"a":[null,"ü"]}'
    assert (job.priority, job.max_attempts) == (-5, 7)
    assert job.tags == ("billing", "nightly")
    assert job.retry == {"strategy": "fixed", "base": 2}
    assert job.timeout_seconds == 1.5


def test_a_template_is_due_at_its_next_occurrence_and_counts_from_zero() -> None:
    job = submit(RECURRING)

    assert job.is_template
    assert job.scheduled_at == datetime(2026, 9, 30, 2, 0, tzinfo=UTC)
    assert (job.catch_up, job.overlap) == (CatchUp.ONE, Overlap.ALLOW)
    assert (job.missed, job.skipped) == (0, 0)


def test_a_template_follows_its_time_zone() -> None:
    job = submit({**RECURRING, "timezone": "Europe/Berlin"})

    assert job.scheduled_at == datetime(2026, 9, 30, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize("number", [0, -1, -(2**31)])
def test_no_positive_max_attempts_means_the_default(number: int) -> None:
    assert submit({**ONE_OFF, "maxAttempts": number}).max_attempts == 3


@pytest.mark.parametrize("name", ["idempotencyKey", "tenantId", "jobType", "scheduledAt"])
def test_a_missing_required_field_is_named(name: str) -> None:
    document = {key: value for key, value in ONE_OFF.items() if key != name}

    assert refusal(document).startswith(f"{name} is required")


FITTING = [("payload", {"x": 1}), ("tags", []), ("timeoutSeconds", 1.5)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (name, value)
        for name in FIELDS
        for value in (None, True, [], [1], 1.5, {"x": 1}, 10**30, "")
        if (name, value) not in FITTING
    ],
)
def test_a_wrong_type_is_refused_by_name(name: str, value: Any) -> None:
    base = RECURRING if FIELDS[name].cron_only or name == "cron" else ONE_OFF

    assert refusal({**base, name: value}).startswith(name)


@pytest.mark.parametrize("name", ["idempotencyKey", "tenantId"])
@pytest.mark.parametrize(
    "text", ["", "   ", "a\0b", "a\nb", "a\x1fb", "a\x7fb", "a\x85b", "a\ud800b", "x" * 256]
)
def test_keys_and_tenants_hold_no_control_characters(name: str, text: str) -> None:
    assert refusal({**ONE_OFF, name: text}).startswith(f"{name} must not")


@pytest.mark.parametrize(
    "text", ["x" * 255, "ü" * 255, "😀" * 255, "a b", "$set", "a.b", "a\u2028b"]
)
def test_other_keys_are_taken_as_they_are(text: str) -> None:
    assert submit({**ONE_OFF, "idempotencyKey": text}).idempotency_key == text


def test_an_unknown_job_type_lists_the_known_ones() -> None:
    assert refusal({**ONE_OFF, "jobType": "noob"}) == (
        'jobType must be one of log-message, noop, not "noob"'
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("idempotencykey", "idempotencyKey"),
        ("idempotency_key", "idempotencyKey"),
        ("maxAttempt", "maxAttempts"),
        ("Payload", "payload"),
        ("schedueldAt", "scheduledAt"),
        ("time-zone", "timezone"),
    ],
)
def test_an_unknown_field_is_refused_with_a_hint(name: str, meant: str) -> None:
    assert refusal({**ONE_OFF, name: 1}) == (
        f'"{name}" is not a field of a job; did you mean "{meant}"?'
    )


def test_a_long_unknown_field_is_not_repeated_in_full() -> None:
    assert len(refusal({**ONE_OFF, "x" * 1_000_000: 1})) < 200


@pytest.mark.parametrize("document", [None, [], "job", 1, True])
def test_a_job_is_an_object(document: object) -> None:
    assert refusal(document).startswith("a job must be an object")


def test_scheduled_at_and_cron_exclude_each_other() -> None:
    assert refusal({**ONE_OFF, **RECURRING}) == "scheduledAt must be absent when cron is given"


@pytest.mark.parametrize(
    ("name", "value"), [("timezone", "UTC"), ("catchUp", "one"), ("overlap", "skip")]
)
def test_fields_of_templates_need_cron(name: str, value: str) -> None:
    assert refusal({**ONE_OFF, name: value}) == f"{name} is only for jobs with cron"


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("cron", {"cron": "61 * * * *"}),
        ("cron", {"cron": "* * * * * *"}),
        ("cron", {"cron": "@daily"}),
        ("cron", {"cron": "0 0 30 2 *"}),
        ("timezone", {"timezone": "Mars/Olympus"}),
        ("catchUp", {"catchUp": "some"}),
        ("overlap", {"overlap": "queue"}),
    ],
)
def test_a_template_that_cannot_work_is_refused(field: str, changes: dict[str, str]) -> None:
    assert refusal({**RECURRING, **changes}).startswith(field)


@pytest.mark.parametrize("name", ["priority", "maxAttempts"])
@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 1.0, 1.5, True, "1", 10**4000])
def test_integers_have_32_bits(name: str, value: object) -> None:
    assert refusal({**ONE_OFF, name: value}).startswith(f"{name} must be an integer of 32 bits")


@pytest.mark.parametrize("value", [0, -1, 2_592_001, 10**400, True, "1"])
def test_timeouts_are_positive_and_bounded(value: object) -> None:
    assert refusal({**ONE_OFF, "timeoutSeconds": value}).startswith("timeoutSeconds must be")


@pytest.mark.parametrize(
    "tags",
    [
        "billing",
        ["a", "a"],
        [""],
        ["x" * 101],
        ["a\0"],
        [1],
        [None],
        [["a"]],
        [str(number) for number in range(21)],
    ],
)
def test_tags_that_cannot_be_listed_by_are_refused(tags: object) -> None:
    assert refusal({**ONE_OFF, "tags": tags}).startswith("tags")


def test_a_retry_policy_is_checked() -> None:
    assert refusal({**ONE_OFF, "retry": {"factr": 2}}).startswith("retry")
    assert refusal({**ONE_OFF, "retry": {"jitter": 2}}).startswith("retry.jitter")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*FIELDS, "other"]), anything))
def test_any_document_is_a_job_or_a_sentence(changes: dict[str, Any]) -> None:
    with suppress(InvalidJob):
        assert submit({**ONE_OFF, **changes}).status is Status.PENDING


@given(st.dictionaries(st.text(), anything))
def test_an_accepted_payload_is_kept_to_the_letter(payload: dict[str, Any]) -> None:
    with suppress(InvalidJob):
        job = submit({**ONE_OFF, "payload": payload})
        assert job.payload is not None
        # The text tells 1.0 from 1, -0.0 from 0.0 and one order of keys from another.
        assert json.dumps(json.loads(job.payload)) == json.dumps(payload)
