"""What a payload may hold."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.payload import MAX_BYTES, payload_text


def nested(levels: int, kind: type) -> dict[str, Any]:
    """A payload of so many levels of objects or arrays; the payload is the first."""
    inner: Any = {} if kind is dict else []
    for _ in range(levels - 2):
        inner = {"a": inner} if kind is dict else [inner]
    return {"a": inner}


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({}, "{}"),
        ({"": ""}, '{"":""}'),
        ({"$set": {"a.b": 1}}, '{"$set":{"a.b":1}}'),
        ({"n": "a\0b"}, '{"n":"a\\u0000b"}'),
        ({"f": 1.0, "i": 1, "z": -0.0}, '{"f":1.0,"i":1,"z":-0.0}'),
        ({"b": 1, "a": 2}, '{"b":1,"a":2}'),
        ({"u": "ü😀\u2028"}, '{"u":"ü😀\u2028"}'),
        ({"min": -(2**63), "max": 2**63 - 1}, f'{{"min":{-(2**63)},"max":{2**63 - 1}}}'),
        ({"x": [None, True, False]}, '{"x":[null,true,false]}'),
    ],
)
def test_a_payload_is_kept_as_it_is(payload: dict[str, Any], text: str) -> None:
    assert payload_text(payload) == text


@pytest.mark.parametrize("kind", [dict, list])
def test_fifty_levels_are_the_deepest(kind: type) -> None:
    payload_text(nested(50, kind))

    with pytest.raises(ValueError, match="nest deeper than 50"):
        payload_text(nested(51, kind))


@pytest.mark.parametrize("kind", [dict, list])
def test_a_hostile_depth_does_not_exhaust_the_stack(kind: type) -> None:
    with pytest.raises(ValueError, match="nest deeper than 50"):
        payload_text(nested(100_000, kind))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (2**63, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (float("nan"), "NaN"),
        (float("inf"), "infinity"),
        (float("-inf"), "infinity"),
        ("\ud800", "surrogate"),
        ("a\udfffb", "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        ({"a\0b": 1}, "NUL"),
    ],
)
def test_what_has_no_faithful_form_is_refused(value: Any, problem: str) -> None:
    for payload in ({"v": value}, {"v": [value]}, {"v": {"w": [value]}}):
        with pytest.raises(ValueError, match=problem):
            payload_text(payload)


@pytest.mark.parametrize("payload", [None, [], "text", 1, 1.5, True])
def test_a_payload_is_an_object(payload: object) -> None:
    with pytest.raises(ValueError, match="must be an object"):
        payload_text(payload)


def test_a_payload_has_one_mebibyte_at_most() -> None:
    fitting = {"a": "x" * (MAX_BYTES - len('{"a":""}'))}
    payload_text(fitting)

    with pytest.raises(ValueError, match="1 MiB"):
        payload_text({"a": fitting["a"] + "x"})
    with pytest.raises(ValueError, match="1 MiB"):
        payload_text({"a": "ü" * (MAX_BYTES // 2)})
