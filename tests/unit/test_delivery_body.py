"""Templates insert values and nothing else, in time that grows with their length."""

from __future__ import annotations

import json
import time
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.delivery.body import MOST_INSERTS, RENDERED_BYTES, ROOTS, check, render

VALUES: dict[str, Any] = {
    "payload": {"order": {"id": "o-7", "lines": [{"n": 1}, 'x"y']}, "sum": 1.5, "none": None},
    "jobId": "c33b37c78a0cafcfd3b8f5f6",
    "attempt": 2,
    "definition": None,
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("no values", "no values"),
        ("{{ payload.order.id }}", '"o-7"'),
        ("{{payload.order.id}}", '"o-7"'),
        ("{{{ payload.order.id }}}", "o-7"),
        ("{{{ payload.sum }}} {{ payload.sum }}", "1.5 1.5"),
        ("{{ payload.order.lines }}", '[{"n":1},"x\\"y"]'),
        ("{{ payload.order.lines.0.n }}", "1"),
        ("{{{ payload.order.lines.1 }}}", 'x"y'),
        ("{{ payload.none }}{{ definition }}", "nullnull"),
        ('{"a":{"b":{{ attempt }}}}', '{"a":{"b":2}}'),
        ('{"a":{{{ attempt }}}}', '{"a":2}'),
        ("a } b }} c }}} { d", "a } b }} c }}} { d"),
    ],
)
def test_values_take_the_place_of_their_names(template: str, text: str) -> None:
    check(template)

    assert render(template, VALUES) == text


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ payload.id", "has {{ without }} (character 1)"),
        ("ab {{{ payload.id }}", "has {{{ without }}} (character 4)"),
        ("{{ order.id }}", 'names "order.id"; there are payload, jobId'),
        ("{{ Payload }}", 'names "Payload"'),
        ("{{}}", 'names ""'),
        ("{{ payload. }}", 'names "payload."'),
        ("{{ jobId.x }}", 'names "jobId.x"'),
        ("{{# payload }}", 'names "# payload"'),
    ],
)
def test_what_could_never_be_rendered_is_refused_at_once(template: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"names|has") as refused:
        check(template)

    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ payload.customer.id }}", "needs payload.customer.id, which is missing"),
        ("{{ payload.order.id.x }}", "needs payload.order.id.x, which is missing"),
        ("{{ payload.order.lines.2 }}", "needs payload.order.lines.2, which is missing"),
        ("{{ payload.order.lines.-1 }}", "needs payload.order.lines.-1, which is missing"),
        ("{{ payload.sum.__class__ }}", "needs payload.sum.__class__, which is missing"),
        ("{{{ payload.none }}}", "needs payload.none to be a string or a number, not null"),
        ("{{{ payload.order }}}", "needs payload.order to be a string or a number, not an object"),
    ],
)
def test_what_is_missing_is_named(template: str, problem: str) -> None:
    check(template)

    with pytest.raises(ValueError, match="needs") as missing:
        render(template, VALUES)

    assert str(missing.value) == problem


def test_the_text_has_a_limit_that_is_kept_while_it_grows() -> None:
    values = {"payload": "x" * (RENDERED_BYTES // 2)}

    assert len(render("{{{ payload }}}" * 2, values)) == RENDERED_BYTES
    begun = time.thread_time()
    with pytest.raises(ValueError, match="becomes longer than 1 MiB"):
        render("{{{ payload }}}" * MOST_INSERTS, values)
    assert time.thread_time() - begun < 0.5


def test_more_values_than_anybody_needs_are_refused_before_they_take_memory() -> None:
    most = "{{ payload }}" * MOST_INSERTS
    check(most)
    assert render(most, {"payload": 1}) == "1" * MOST_INSERTS

    tracemalloc.start()
    for refuse in (check, lambda template: render(template, {"payload": 1})):
        with pytest.raises(ValueError, match="inserts more than 1,000 values"):
            refuse("{{payload}}" * 20_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_templates_are_not_kept() -> None:
    render(f"{{{{ payload }}}}{'x' * 100_000}", {"payload": 1})

    tracemalloc.start()
    for number in range(20):
        render(f"{number}{{{{ payload }}}}{'x' * 100_000}", {"payload": 1})
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1 << 20


@pytest.mark.parametrize("piece", ["{{", "{{{", "{{ payload }", "}}", "{", "{{{ payload }} "])
def test_braces_without_end_take_no_time(piece: str) -> None:
    template = piece * (200_000 // len(piece))

    begun = time.thread_time()
    with suppress(ValueError):
        check(template)
    assert time.thread_time() - begun < 0.5


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_whatever_is_inserted_comes_back_as_json(value: Any) -> None:
    assert json.loads(render('{"v":{{ payload }}}', {"payload": value})) == {"v": value}


def test_every_name_can_be_inserted() -> None:
    text = render(" ".join(f"{{{{ {root} }}}}" for root in ROOTS), dict.fromkeys(ROOTS, 1))

    assert text == " ".join("1" for _ in ROOTS)
