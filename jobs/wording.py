"""How errors speak of what a client sent, or of much at once."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from math import isfinite
from typing import Final

from jobs.json_text import dumps, kind_of

_LONGEST_SHOWN: Final = 60
_LISTED: Final = 10
_LONGEST_LISTED: Final = 200


def shown(value: object) -> str:
    """A decoded value for an error text: itself where it is short, else what kind it is."""
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        text = dumps(value[:_LONGEST_SHOWN] if isinstance(value, str) else value)
        return text if len(text) <= 2 * _LONGEST_SHOWN else kind_of(value)
    return kind_of(value)


def unknown_name(name: str, known: Iterable[str], sentence: str) -> str:
    """What to say of a name that there is not, with the one that may have been meant.

    Args:
        name: what stands there.
        known: the names there are.
        sentence: with `{}` for the name.
    """
    by_lower = {each.lower(): each for each in known}
    # Comparing a long name with all others would take long.
    wanted = name[:_LONGEST_SHOWN].lower().replace("_", "").replace("-", "")
    close = difflib.get_close_matches(wanted, by_lower, n=1)
    hint = f'; did you mean "{by_lower[close[0]]}"?' if close else ""
    return sentence.format(shown(name)) + hint


def listed(names: Collection[str]) -> str:
    """The first ten of some names, which anybody may have written into a database."""
    rest = len(names) - _LISTED
    first = ", ".join(name[:_LONGEST_LISTED] for name in list(names)[:_LISTED])
    return first + (f" and {rest} more" if rest > 0 else "")
