"""What is sent is made where it holds nobody up."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from executor.delivery.sender import apart, work_of
from jobs.delivery.body import MOST_INSERTS
from tests.builders import a_job

LONG = "x" * 200_000


@pytest.mark.parametrize(
    ("fields", "is_apart"),
    [
        ({}, False),
        ({"payload": '{"a":1}', "delivery": '{"body":"{{ payload.a }} of {{ jobId }}"}'}, False),
        ({"payload": json.dumps({"a": LONG})}, True),
        ({"delivery": json.dumps({"body": LONG})}, True),
        (
            {
                "payload": json.dumps({"a": "x" * 2_000}),
                "delivery": json.dumps({"body": "{{ payload }}" * MOST_INSERTS}),
            },
            True,
        ),
    ],
    ids=["nothing", "little", "long payload", "long template", "long result"],
)
def test_what_takes_long_is_made_in_another_thread(fields: dict[str, Any], is_apart: bool) -> None:
    made_by = asyncio.run(apart(work_of(a_job(**fields)), threading.current_thread))

    assert (made_by is not threading.current_thread()) is is_apart
