"""Which headers name a place in a trace."""

from __future__ import annotations

import pytest

from jobs.tracing.traceparent import Traceparent, parse, trace_id_of

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


@pytest.mark.parametrize(("flags", "is_sampled"), [("00", False), ("01", True), ("03", True)])
def test_a_header_is_read(flags: str, is_sampled: bool) -> None:
    assert parse(f"00-{TRACE}-{SPAN}-{flags}") == Traceparent(TRACE, SPAN, is_sampled)


def test_a_place_is_written_as_it_is_read() -> None:
    text = f"00-{TRACE}-{SPAN}-01"

    assert str(parse(text)) == text


def test_versions_to_come_may_say_more_and_are_passed_on_as_ours() -> None:
    assert str(parse(f"01-{TRACE}-{SPAN}-01-more")) == f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01\n",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01-{'x' * 1000}",
    ],
)
def test_what_is_malformed_names_no_place(text: str | None) -> None:
    assert parse(text) is None
    assert trace_id_of(text) is None
