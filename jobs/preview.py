"""What a cron expression will do: its meaning in words, and when it fires next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from jobs import cron
from jobs.cron import Schedule
from jobs.cron_words import in_words

_DAY: Final = timedelta(days=1)
_NOTHING: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """When a template fires."""

    at: datetime
    """UTC."""
    local: datetime
    """The same in the template's zone."""
    note: str | None
    """What the clock change of that day does to it; None: there is no change."""

    @property
    def shown(self) -> str:
        """The local time with its offset: Mon 2026-11-30 04:25 +01:00."""
        offset = self.local.isoformat()[len("2026-11-30T04:25:00") :]
        return f"{self.local:%a %Y-%m-%d %H:%M} {offset}"


@dataclass(frozen=True, slots=True)
class Preview:
    """What an expression means in a zone."""

    words: str | None
    occurrences: list[Occurrence]


def preview(expression: str, timezone: str | None, *, now: datetime, count: int) -> Preview:
    """What an expression means, and its next `count` occurrences after `now` (aware).

    Raises:
        InvalidCron: it cannot be used, or the zone. The text names the field.
    """
    schedule = cron.parse(expression, timezone)
    return Preview(in_words(expression), next_occurrences(schedule, now=now, count=count))


def next_occurrences(schedule: Schedule, *, now: datetime, count: int) -> list[Occurrence]:
    """The next `count` occurrences after `now` (aware); fewer where the calendar ends."""
    found = schedule.occurrences(now, cron.LATEST, count)
    return [Occurrence(at, at.astimezone(schedule.zone), _note(schedule, at)) for at in found]


def _note(schedule: Schedule, at: datetime) -> str | None:
    local = at.astimezone(schedule.zone)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    try:
        shift = _offset(midnight + _DAY) - _offset(midnight)
    except OverflowError:
        return None
    if shift == _NOTHING:
        return None
    direction = "forward" if shift > _NOTHING else "back"
    note = f"The clock goes {direction} by {_hours(abs(shift))} on this day."
    if not schedule.matches(at):
        return f"{note} The local time that is meant does not exist: it fires right after the gap."
    first, second = cron.readings(local.replace(fold=0))
    if first < second and not schedule.follows_real_time:
        return f"{note} {local:%H:%M} comes twice: it fires the first time only."
    if first < second:
        which = "second" if at == second else "first"
        return f"{note} {local:%H:%M} comes twice: this is the {which} time."
    return note


def _offset(local: datetime) -> timedelta:
    return local.utcoffset() or _NOTHING


def _hours(duration: timedelta) -> str:
    minutes = duration // timedelta(minutes=1)
    hours, rest = divmod(minutes, 60)
    return " ".join(f"{n} {unit}" for n, unit in ((hours, "h"), (rest, "min")) if n)
