"""The `traceparent` of W3C Trace Context: which trace something belongs to, and below which span.

https://www.w3.org/TR/trace-context/#traceparent-header
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

HEADER: Final = "traceparent"
_SAMPLED: Final = 1
# Versions to come may append fields; `ff` is none.
_FORM: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.{0,400})?"
)


@dataclass(frozen=True, slots=True)
class Traceparent:
    """A place in a trace."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    is_sampled: bool

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.is_sampled):02x}"


def parse(text: str | None) -> Traceparent | None:
    """The place that a header names; None where it is malformed, as the standard has it."""
    match = _FORM.fullmatch(text or "")
    if match is None or (match[1] == "00" and match[5] is not None):
        return None
    return Traceparent(match[2], match[3], bool(int(match[4], 16) & _SAMPLED))


def trace_id_of(text: str | None) -> str | None:
    """The trace of a `traceparent`; None without one."""
    place = parse(text)
    return place.trace_id if place else None
