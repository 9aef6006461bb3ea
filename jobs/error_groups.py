"""Which errors are the same error: what is left of a text without what differs each time."""

from __future__ import annotations

import re
from typing import Final

NO_ERROR: Final = "no error text"
"""The group of dead letters without one."""
LONGEST: Final = 200
"""Characters of a group's name."""

_LOOKED_AT: Final = 2_000
_VARIABLE: Final = (
    # Who held a job that was taken back.
    (re.compile(r"(?<=^executor )\S+"), "#"),
    # Apostrophes inside words are none.
    (re.compile(r"""(?<!\w)(["'`])(?:(?!\1).)*\1(?!\w)"""), r"\1…\1"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "#"),
    (re.compile(r"\b(?:0x)?[0-9a-f]{8,}\b", re.IGNORECASE), "#"),
    # Also with their units.
    (re.compile(r"\b\d\w*"), "#"),
    # Shortened hashes.
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{6,}\b"), "#"),
    (re.compile(r"\d+"), "#"),
)


def error_group(text: str) -> str:
    """The group that an error belongs to, which is also its name for people.

    Of the first line: numbers, ids and quoted strings are replaced, white space is made single.
    """
    lines = text[:_LOOKED_AT].split("\n")
    line = " ".join(next((each for each in lines if each.strip()), "").split())
    for pattern, placeholder in _VARIABLE:
        line = pattern.sub(placeholder, line)
    return line[:LONGEST].rstrip() or NO_ERROR
