"""Delays between attempts, and which policies are refused with which words."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidJob
from jobs.retry import POLICY_SCHEMA, RetryPolicy

MONTH = 30 * 24 * 3_600


def delays(document: dict[str, Any] | None, attempts: int = 5) -> list[float]:
    policy = RetryPolicy.from_document(document)
    return [policy.delay(n, 0.0).total_seconds() for n in range(1, attempts + 1)]


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    low, high = sorted([draw(st.floats(0.001, MONTH)), draw(st.floats(0.001, MONTH))])
    return {
        "strategy": draw(st.sampled_from(["fixed", "linear", "exponential"])),
        "base": low,
        "factor": draw(st.floats(1, 1_000)),
        "cap": high,
        "jitter": draw(st.floats(0, 1)),
    }


def test_default_doubles_from_two_seconds_to_five_minutes() -> None:
    assert delays(None, 10) == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert delays({}, 10) == delays(None, 10)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"strategy": "fixed", "base": 7}, [7, 7, 7, 7, 7]),
        ({"strategy": "linear", "base": 10, "cap": 35}, [10, 20, 30, 35, 35]),
        ({"strategy": "exponential", "base": 0.5, "factor": 3}, [1.5, 4.5, 13.5, 40.5, 121.5]),
        ({"factor": 1}, [1, 1, 1, 1, 1]),
        ({"base": 300}, [300, 300, 300, 300, 300]),
    ],
)
def test_strategy_decides_how_delays_grow(document: dict[str, Any], expected: list[float]) -> None:
    assert delays(document) == expected


def test_jitter_shortens_a_delay_by_its_fraction_at_most() -> None:
    policy = RetryPolicy(strategy="fixed", base=100, jitter=0.25)

    assert policy.delay(1, 0.0) == timedelta(seconds=100)
    assert policy.delay(1, 0.5) == timedelta(seconds=87.5)
    assert policy.delay(1, math.nextafter(1, 0)) == timedelta(seconds=75)


@given(documents(), st.integers(1, 10**6), st.floats(0, 1, exclude_max=True))
def test_delay_is_never_beyond_the_cap(
    document: dict[str, Any], attempt: int, random: float
) -> None:
    policy = RetryPolicy.from_document(document)

    delay = policy.delay(attempt, random)

    assert timedelta(0) <= delay <= timedelta(seconds=policy.cap)
    assert policy.delay(attempt + 1, random) >= delay


@given(documents())
def test_document_comes_back_as_it_was(document: dict[str, Any]) -> None:
    policy = RetryPolicy.from_document(document)

    assert {name: getattr(policy, name) for name in document} == document


@pytest.mark.parametrize("value", [5, "fixed", True, [], [["base", 1]]])
def test_policy_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match="retry must be an object"):
        RetryPolicy.from_document(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "1",
        "NaN",
        [1],
        {},
        math.nan,
        math.inf,
        -math.inf,
        -1,
        10**400,
        -(10**400),
        MONTH + 1,
    ],
)
@pytest.mark.parametrize("name", ["base", "factor", "cap", "jitter"])
def test_value_that_is_no_number_in_range_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidJob, match=f"^retry.{name} must be a number from ") as refusal:
        RetryPolicy.from_document({name: value})

    assert refusal.value.field == f"retry.{name}"


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"base": 0}, "retry.base must be a number from 0.001 to 2592000"),
        ({"factor": 0.5}, "retry.factor must be a number from 1 to 1000"),
        ({"jitter": 1.01}, "retry.jitter must be a number from 0 to 1"),
        ({"base": 600}, "retry.base must not be above retry.cap, which is 300"),
        ({"cap": 0.5}, "retry.base must not be above retry.cap, which is 0.5"),
        ({"strategy": "quadratic"}, "retry.strategy must be one of: fixed, linear, exponential"),
        ({"strategy": None}, "retry.strategy must be one of: fixed, linear, exponential"),
        ({"strategy": ["fixed"]}, "retry.strategy must be one of: fixed, linear, exponential"),
        ({"jiter": 0.5}, 'retry has no field "jiter"; did you mean "jitter"?'),
        ({"": 1}, 'retry has no field ""'),
        ({"x" * 1_000: 1}, f'retry has no field "{"x" * 60}"'),
    ],
)
def test_refusal_says_what_is_wrong(document: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidJob) as refusal:
        RetryPolicy.from_document(document)

    assert str(refusal.value) == text


def test_schema_describes_the_default_policy() -> None:
    properties = POLICY_SCHEMA["properties"]

    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}

    assert len(defaults) == 5
    assert {name: getattr(RetryPolicy(), name) for name in defaults} == defaults


@pytest.mark.parametrize("name", ["base", "factor", "cap", "jitter"])
def test_schema_states_the_bounds_that_are_enforced(name: str) -> None:
    bounds = POLICY_SCHEMA["properties"][name]
    # Room on both sides, so that `base` is never above `cap`.
    room: dict[str, float] = {"cap": MONTH} if name == "base" else {"base": 0.001}

    for edge, beyond in [("minimum", -math.inf), ("maximum", math.inf)]:
        RetryPolicy.from_document({**room, name: bounds[edge]})
        with pytest.raises(InvalidJob):
            RetryPolicy.from_document({**room, name: math.nextafter(bounds[edge], beyond)})
