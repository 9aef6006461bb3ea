"""Types for the arguments of commands: a bad value is one sentence beside the usage."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import timedelta

from chronos_site.values import parse_duration


def count(text: str) -> int:
    """A whole number above 0."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no positive number")
    return int(text)


def count_up_to(most: int) -> Callable[[str], int]:
    """A whole number from 1 to `most`."""

    def parse(text: str) -> int:
        if (number := count(text)) > most:
            raise ArgumentTypeError(f"{text!r} is more than {most}")
        return number

    return parse


def duration(text: str) -> timedelta:
    """A duration as in the settings, such as `500ms` or `1h30m`; also none at all, `0s`."""
    try:
        return parse_duration(text)
    except (ValueError, OverflowError) as exc:
        raise ArgumentTypeError(str(exc)) from exc
