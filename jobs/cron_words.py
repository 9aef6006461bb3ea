"""A cron expression in plain words.

They come from cron-descriptor, whose rules differ from ours here and there: of `*/7` it says
"every 7 minutes", although minute 56 is followed by minute 0, and it takes a day field that starts
with `*` for a restriction. So it is given what `jobs.cron` has understood, written so that it can
be read in one way only.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from cron_descriptor import FormatError, Options, get_description

from jobs import cron

_KEPT: Final = 4_096
_ALL: Final = "*"
_MINUTES: Final = range(60)
_HOURS: Final = range(24)
_DAYS: Final = range(1, 32)
_MONTHS: Final = range(1, 13)
_WEEKDAYS: Final = range(1, 8)


@lru_cache(maxsize=_KEPT)
def in_words(expression: str) -> str | None:
    """What an expression means, such as "At 09:00, Monday through Friday".

    Returns:
        None where there are no words for it.

    Raises:
        InvalidCron: it cannot be used.
    """
    fields = cron.fields_of(expression)
    minute = _text(fields.minutes, _MINUTES, with_steps=True)
    # "Every minute, every 2 hours" could mean anything.
    hour = _text(fields.hours, _HOURS, with_steps=minute.isdigit())
    day = _text(fields.month_days, _DAYS)
    # "On day 1, Monday through Friday" does not tell "and" from "or"; a list of weekdays does.
    # Sunday comes last, as 7.
    weekdays = fields.weekdays | (fields.weekdays & 1) << 7
    weekday = _text(weekdays, _WEEKDAYS, with_ranges=day == _ALL)
    if fields.either_day and _ALL in (day, weekday):
        day = weekday = _ALL
    month = _text(fields.months, _MONTHS)
    options = Options()
    options.use_24hour_time_format = True
    try:
        words: str = get_description(f"{minute} {hour} {day} {month} {weekday}", options)
    except FormatError:
        return None
    if words.startswith("Every ") and "," in hour:
        words = words.replace(", at ", ", in the hours of ", 1)
    return words if fields.either_day else words.replace(", or on ", ", but only on ", 1)


def _text(
    members: int, all_of: range, *, with_steps: bool = False, with_ranges: bool = True
) -> str:
    """A field that stands for these numbers."""
    numbers = [number for number in all_of if members >> number & 1]
    first, last, count = numbers[0], numbers[-1], len(numbers)
    if count == len(all_of):
        return _ALL
    # Only where the step from the last to the first of the next round is as long as the others.
    step, rest = divmod(len(all_of), count)
    if with_steps and count > 1 and not rest and numbers == list(all_of[::step]):
        return f"*/{step}"
    if with_ranges and count > 2 and last - first == count - 1:
        return f"{first}-{last}"
    return ",".join(map(str, numbers))
