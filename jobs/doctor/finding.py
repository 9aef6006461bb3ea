"""One thing that the doctor found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from jobs.errors import ChronosError

_LONGEST_TEXT: Final = 4_000


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    """It works, and may not for long."""
    FAIL = "fail"
    """Something does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about a part of the installation."""

    level: Level
    text: str
    remedy: str | None = None
    """What to change; None where nothing has to be."""


def ok(text: str) -> Finding:
    return Finding(Level.OK, text)


def warn(text: str, remedy: str) -> Finding:
    return Finding(Level.WARN, text, remedy)


def fail(text: str, remedy: str | None = None) -> Finding:
    return Finding(Level.FAIL, text, remedy)


Examination = Callable[[], Iterator[Finding]]


def examined(examination: Examination) -> Iterator[Finding]:
    """What an examination finds, up to the first question that its server does not answer."""
    try:
        yield from examination()
    except ChronosError as exc:
        yield fail(str(exc))


def printable(text: str) -> str:
    """A text for a terminal: what would move its cursor or change its colours is spelled out."""
    return "".join(
        character if character.isprintable() else repr(character)[1:-1]
        for character in text[:_LONGEST_TEXT]
    )
