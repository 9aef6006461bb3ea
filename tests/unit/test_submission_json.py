"""JSON, read strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.json_text import NotJson, loads, to_bytes

values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_what_is_written_reads_back(value: Any) -> None:
    assert json.dumps(loads(to_bytes(value).decode())) == json.dumps(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("[1,]", "Expecting value|Illegal trailing comma"),
        ("{'a': 1}", "property name"),
        ('{"a": 1} x', "Extra data"),
        ('"\n"', "Invalid control character"),
        ("// c\n1", "Expecting value"),
        ("01", "Extra data"),
        ("+1", "Expecting value"),
        (".5", "Expecting value"),
        ("NaN", "NaN is not"),
        ("[Infinity]", "Infinity is not"),
        ('{"a": -Infinity}', "-Infinity is not"),
        ("1e999", "too large"),
        ("-1e999", "too large"),
        ('{"a": 1, "a": 1}', '"a" comes twice'),
        ('{"a": {"b": 1, "\\u0062": 2}}', '"b" comes twice'),
        ("1" * 5000, "thousands of digits"),
        ("-" + "1" * 5000, "thousands of digits"),
        ("[" * 100_000, "too deeply"),
        ('{"a":' * 100_000, "too deeply"),
        ("[" * 100_000 + "]" * 100_000, "too deeply"),
    ],
)
def test_what_is_not_json_is_refused(text: str, problem: str) -> None:
    with pytest.raises(NotJson, match=problem):
        loads(text)


def test_a_lone_surrogate_is_written_as_its_escape() -> None:
    assert to_bytes({"a": "\ud800ü"}) == '{"a":"\\ud800ü"}'.encode()
