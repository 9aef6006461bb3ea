"""Errors that differ only in numbers, ids and quotations are one group."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.error_groups import LONGEST, NO_ERROR, error_group


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("hooks.example.com answered 503 Service Unavailable",
         "hooks.example.com answered # Service Unavailable"),
        ("KeyError: 'order-17'", "KeyError: '…'"),
        ('no user "al\'ice"  \n\n in the table', 'no user "…"'),
        ("It isn't there, and can't be", "It isn't there, and can't be"),
        ("order 5f3a9c0d1e2b4a6978c0ffee is gone", "order # is gone"),
        ("id 123E4567-e89b-12d3-a456-426614174000 is gone", "id # is gone"),
        ("<object at 0x7f0012ab34cd>", "<object at #>"),
        ("timed out after 10.5s", "timed out after #.#"),
        ("10.0.0.7:8080 refused", "#.#.#.#:# refused"),
        ("pod web-a1b2c3 is gone", "pod web-# is gone"),
        ("Http2Error: utf8", "Http#Error: utf#"),
        ("executor executor-host-abcdef gave no sign of life; the job was taken back",
         "executor # gave no sign of life; the job was taken back"),
        ("\n\n  second line\nthird", "second line"),
        ("", NO_ERROR),
        (" \n\t", NO_ERROR),
    ],
)  # fmt: skip
def test_what_differs_each_time_is_left_out(text: str, group: str) -> None:
    assert error_group(text) == group


@given(st.text())
def test_any_text_has_a_group(text: str) -> None:
    group = error_group(text)

    assert 0 < len(group) <= LONGEST
    assert "\n" not in group


@given(st.integers(min_value=0), st.integers(min_value=0), st.uuids(), st.uuids())
def test_numbers_and_ids_do_not_split_a_group(a: int, b: int, c: object, d: object) -> None:
    assert error_group(f"order {a} of {c} is late") == error_group(f"order {b} of {d} is late")


@pytest.mark.parametrize("unit", ["'", '"', "a'", "0", "f", "a1", "executor ", "\n", " "])
def test_a_long_text_takes_no_longer_than_its_length_asks(unit: str) -> None:
    assert len(error_group(unit * 1_000_000)) <= LONGEST
