"""What the status of an HTTP answer means: delivered, try again, or give up."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, Final

Statuses = Collection[int | str]
"""Single codes (`404`) and classes (`"4xx"`)."""

_MOST: Final = 50
_CODES: Final = range(200, 600)
_CLASS: Final = re.compile(r"[2-5]xx")


class Verdict(StrEnum):
    """What an answer makes of its attempt."""

    DONE = "done"
    RETRY = "retry"
    TERMINAL = "terminal"


DONE: Final[Statuses] = ("2xx",)
"""Done, unless the delivery has `expectedStatuses` of its own."""
# Timeout, Too Early, Too Many Requests, and whatever went wrong on the server's side.
RETRYABLE: Final[Statuses] = (408, 425, 429, "5xx")
"""Worth another attempt, unless the job says otherwise. Every other answer is terminal."""

STATUSES_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "array",
    "maxItems": _MOST,
    "items": {
        "anyOf": [
            {"type": "integer", "minimum": _CODES.start, "maximum": _CODES.stop - 1},
            {"type": "string", "pattern": f"^{_CLASS.pattern}$"},
        ]
    },
    "examples": [[200, "3xx"]],
}
"""JSON schema of a list of statuses."""


def check_statuses(value: object) -> list[int | str]:
    """A decoded list of statuses.

    Raises:
        ValueError: it is none; the end of a sentence.
    """
    if not isinstance(value, list | tuple):
        raise ValueError('must be an array of statuses such as 404 or "4xx"')
    if len(value) > _MOST:
        raise ValueError(f"must not have more than {_MOST} entries")
    for each in value:
        is_class = isinstance(each, str) and _CLASS.fullmatch(each)
        if not is_class and (type(each) is not int or each not in _CODES):
            raise ValueError('must hold statuses such as 404 or "4xx", from 200 to 599')
    return list(value)


def classify(
    code: int, *, expected: Statuses = (), retryable: Statuses = (), terminal: Statuses = ()
) -> Verdict:
    """What a status means. The first list that holds it decides.

    Args:
        code: of the answer.
        expected: the delivery's `expectedStatuses`; empty: 2xx.
        retryable: the job's `retry.retryableStatuses`.
        terminal: the job's `retry.terminalStatuses`.
    """
    if _holds(expected or DONE, code):
        return Verdict.DONE
    if _holds(terminal, code):
        return Verdict.TERMINAL
    if _holds(retryable, code) or _holds(RETRYABLE, code):
        return Verdict.RETRY
    return Verdict.TERMINAL


def _holds(statuses: Statuses, code: int) -> bool:
    return code in statuses or f"{code // 100}xx" in statuses
