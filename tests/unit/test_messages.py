"""The small messages that travel through Kafka, and junk that does too."""

from __future__ import annotations

import json

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from jobs.lifecycle import job_id_for
from jobs.messages import (
    JOB_TYPE,
    consumer_group,
    dead_letter_message,
    dispatch_message,
    dispatch_topic,
    job_id_of,
)
from jobs.repository.dead_letters import DeadLetter
from jobs.repository.dispatch import DueJob
from tests.builders import NOW

JOB_ID = job_id_for("nightly-report")


def test_names_are_those_of_the_reference() -> None:
    assert dispatch_topic("log-message") == "jobs.dispatch.log-message"
    assert consumer_group("log-message") == "executor-log-message"


def test_a_dispatch_message_carries_id_type_and_priority_only() -> None:
    message = dispatch_message(DueJob(JOB_ID, "noop", 5, NOW))

    assert message.topic == "jobs.dispatch.noop"
    assert json.loads(message.value) == {
        "jobId": str(JOB_ID),
        "jobType": "noop",
        "priority": 5,
    }
    assert message.key is None


def test_a_dispatch_message_names_its_job() -> None:
    assert job_id_of(dispatch_message(DueJob(JOB_ID, "noop", 5, NOW)).value) == JOB_ID


def test_a_dead_letters_message_says_whose_it_is_and_why() -> None:
    letter = DeadLetter(JOB_ID, "tenant-ä", "noop", "nightly-report", 3, "\ud800 why")

    message = dead_letter_message(letter)

    assert message.topic == "jobs.dlq"
    assert message.key == str(JOB_ID).encode()
    assert json.loads(message.value) == {
        "jobId": str(JOB_ID),
        "jobType": "noop",
        "tenantId": "tenant-ä",
        "idempotencyKey": "nightly-report",
        "attempts": 3,
        "lastError": "\ud800 why",
    }


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{",
        b"null",
        b"[]",
        b'"jobId"',
        b"{}",
        b'{"jobId": null}',
        b'{"jobId": 1}',
        b'{"jobId": ["41db258f0b6b15a4fcfc06f0"]}',
        b'{"jobId": ""}',
        b'{"jobId": "41db258f0b6b15a4fcfc06f"}',
        b'{"jobId": "41DB258F0B6B15A4FCFC06F0"}',
        b'{"jobId": "41db258f0b6b15a4fcfc06f0\\n"}',
        b'{"jobId": "123456789012"}',
        "٤١".encode() * 12,
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"9" * 10_000,
    ],
)
def test_junk_names_no_job(value: bytes | None) -> None:
    assert job_id_of(value) is None


@given(st.binary())
def test_no_message_stops_its_reader(value: bytes) -> None:
    found = job_id_of(value)

    assert found is None or isinstance(found, ObjectId)


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("log-message", True),
        ("a.b_C-9", True),
        ("x" * 200, True),
        ("x" * 201, False),
        ("", False),
        ("a b", False),
        ("ä", False),
        ("a/b", False),
        ("a\n", False),
    ],
)
def test_a_job_type_must_fit_into_the_name_of_a_topic(name: str, fits: bool) -> None:
    assert (JOB_TYPE.fullmatch(name) is not None) == fits
