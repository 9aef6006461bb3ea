"""What a payload may hold, and its one stored form: a JSON text."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from jobs.json_text import dumps, kind_of

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 50
"""Levels of objects and arrays, the payload itself being the first."""
_INT64: Final = range(-(1 << 63), 1 << 63)


def payload_text(payload: object) -> str:
    """A decoded payload as it is stored. It reads back as what was sent, whatever its keys.

    Raises:
        ValueError: what is wrong, as the end of a sentence that begins with "payload".
    """
    if not isinstance(payload, dict):
        raise ValueError(f"must be an object, not {kind_of(payload)}")
    _check_levels(payload)
    text = dumps(payload)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as exc:
        raise ValueError("must not hold a lone surrogate: it has no form in UTF-8") from exc
    if size > MAX_BYTES:
        raise ValueError("must not be larger than 1 MiB")
    return text


def _check_levels(payload: dict[str, Any]) -> None:
    # Level by level, not by recursion: a hostile payload must not exhaust Python's stack.
    level: list[Any] = [payload]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for container in level:
            values = container
            if type(container) is dict:
                for key in container:
                    if "\0" in key:
                        raise ValueError("must not have a key that holds NUL")
                values = container.values()
            for value in values:
                kind = type(value)
                if kind is dict or kind is list:
                    deeper.append(value)
                elif kind is int and value not in _INT64:
                    raise ValueError("must not hold an integer beyond 64 bits")
                elif kind is float and not isfinite(value):
                    raise ValueError("must not hold NaN or an infinity")
        if not deeper:
            return
        level = deeper
    raise ValueError(f"must not nest deeper than {MAX_DEPTH} levels")
