"""docs/api.md leaves nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

from jobs.api import openapi
from jobs.api.query import DEFINITION_PARAMETERS, JOB_PARAMETERS, SCHEDULE_PARAMETERS
from jobs.api.representation import SHOWN
from jobs.api.schemas import ATTEMPT
from jobs.api.v1.schemas import V1_COMPONENTS
from jobs.fields import FIELDS
from jobs.lifecycle import Status, job_id_for
from jobs.retry import POLICY_SCHEMA

DOCS = Path(settings.BASE_DIR) / "docs"
PAGE = (DOCS / "api.md").read_text() + (DOCS / "definitions.md").read_text()


@pytest.mark.parametrize(
    "name",
    [
        *dict.fromkeys([*FIELDS, *SHOWN, "unreadable", *JOB_PARAMETERS, *Status]),
        *ATTEMPT["properties"],
        *POLICY_SCHEMA["properties"],
        *SCHEDULE_PARAMETERS,
        *DEFINITION_PARAMETERS,
        *V1_COMPONENTS["Definition"]["properties"],
        *V1_COMPONENTS["HttpDelivery"]["properties"],
        *V1_COMPONENTS["KafkaDelivery"]["properties"],
    ],
)
def test_every_name_is_explained(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_every_route_stands_with_its_answers() -> None:
    for path, methods in openapi.document()["paths"].items():
        for method, operation in methods.items():
            start = f"| `{method.upper()} {path}` |"
            (row,) = [line for line in PAGE.splitlines() if line.startswith(start)]
            answers = {status for status in operation["responses"] if status < "500"}
            if path in ("/openapi.json", "/docs"):
                # Theirs is only the answer to a foreign host.
                answers.discard("400")
            assert set(row.split("|")[-2].strip().split(", ")) == answers


def test_every_id_on_the_page_is_that_of_its_example() -> None:
    ids = {str(job_id_for(key)) for key in ("test-job-1", "invoice-17")}

    assert set(re.findall(r"\b[0-9a-f]{24}\b", PAGE)) == ids
