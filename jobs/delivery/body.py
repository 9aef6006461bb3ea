"""Templates of bodies and keys: a text with values of the job in it, and no logic.

`{{ payload.order.id }}` inserts a value as JSON, `{{{ payload.name }}}` the bare text of a string
or number. Single braces stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jobs.json_text import dumps, kind_of

ROOTS: Final = (
    "payload",
    "jobId",
    "attempt",
    "tenantId",
    "jobType",
    "scheduledAt",
    "idempotencyKey",
    "definition",
)
"""What the first part of a name may be; only `payload` has parts of its own."""
MOST_INSERTS: Final = 1_000
"""Values in one template, at most: each takes time at every attempt."""
RENDERED_BYTES: Final = 1 << 20
"""Length of a rendered text in UTF-8, at most."""

_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class _Insert:
    path: tuple[str, ...]
    is_raw: bool


def check(template: str) -> None:
    """Refuse a template that could never be rendered.

    Raises:
        ValueError: braces that are not closed, a name that there is not, or too many values; the
            end of a sentence.
    """
    for _ in _parts(template):
        pass


def render(template: str, values: Mapping[str, Any]) -> str:
    """The text with the values in their places.

    Args:
        template: one that `check` lets pass.
        values: by the names of `ROOTS`.

    Raises:
        ValueError: as `check`; a value is missing or cannot be inserted bare, or the text becomes
            too long. The end of a sentence.
    """
    pieces = []
    room = RENDERED_BYTES
    for part in _parts(template):
        piece = part if isinstance(part, str) else _text_of(part, values)
        pieces.append(piece)
        room -= len(piece.encode(errors="backslashreplace"))
        if room < 0:
            raise ValueError(f"becomes longer than {RENDERED_BYTES >> 20} MiB")
    return "".join(pieces)


def _parts(template: str) -> Iterator[str | _Insert]:
    position = inserts = 0
    while (start := template.find("{{", position)) >= 0:
        yield template[position:start]
        is_raw = template.startswith("{{{", start)
        opening, closing = ("{{{", "}}}") if is_raw else ("{{", "}}")
        end = template.find(closing, start)
        if end < 0:
            raise ValueError(f"has {opening} without {closing} (character {start + 1})")
        inserts += 1
        if inserts > MOST_INSERTS:
            raise ValueError(f"inserts more than {MOST_INSERTS:,} values")
        yield _Insert(_path(template[start + len(opening) : end]), is_raw)
        position = end + len(closing)
    yield template[position:]


def _path(name: str) -> tuple[str, ...]:
    path = tuple(name.strip().split("."))
    root, *inner = path
    if root not in ROOTS or not all(inner) or (inner and root != "payload"):
        raise ValueError(
            f"names {dumps(name.strip()[:_SHOWN])}; there are {', '.join(ROOTS)}, and values inside"
            " of payload such as payload.order.id"
        )
    return path


def _text_of(insert: _Insert, values: Mapping[str, Any]) -> str:
    value: Any = values
    for part in insert.path:
        try:
            value = value[int(part) if isinstance(value, list) and part.isdecimal() else part]
        except (LookupError, TypeError, ValueError):
            raise ValueError(f"needs {'.'.join(insert.path)[:_SHOWN]}, which is missing") from None
    if not insert.is_raw:
        return dumps(value)
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return dumps(value)
    raise ValueError(
        f"needs {'.'.join(insert.path)[:_SHOWN]} to be a string or a number, not {kind_of(value)}"
    )
