"""docs/delivery.md says of answers, failures and headers what the code does."""

from __future__ import annotations

import re

from executor.calls import BadPayload
from executor.delivery.content import BadTemplate
from jobs.delivery.body import ROOTS
from jobs.delivery.statuses import classify
from jobs.errors import InvalidJob, SecretUnreadable
from tests.unit.test_docs import ROOT, code, rows, section

PAGE = "docs/delivery.md"


def test_every_example_of_the_table_of_answers_is_judged_so() -> None:
    judged = {
        int(code): meaning
        for _, meaning, examples in rows(section(PAGE, "What an answer means"))
        for code in examples.split(", ")
        if code
    }

    assert judged == {code: str(classify(code)) for code in judged}
    assert set(judged.values()) == {"done", "retry", "terminal"}


def test_every_error_class_is_explained() -> None:
    sources = "".join(file.read_text() for file in (ROOT / "executor/delivery").glob("*.py"))
    given = set(re.findall(r'error_class="(\w+)"', sources))
    passed_on = {
        error.__name__ for error in (BadTemplate, BadPayload, InvalidJob, SecretUnreadable)
    }

    named = {row[0] for row in rows(section(PAGE, "When there is no answer"))}

    assert named == given | passed_on


def test_every_name_that_templates_know_is_listed() -> None:
    spans = set(code(PAGE).split("\n"))

    assert set(ROOTS) <= spans
