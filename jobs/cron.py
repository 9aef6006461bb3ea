"""When a template fires: strict five-field cron expressions, in any IANA time zone.

An expression describes local times. Where the zone's clock changes, these are not all instants:

- A local time that does not exist fires once, at the first instant after the gap. Several of them
  in one gap make one firing.
- A local time that comes twice fires the first time only, unless the job *follows real time*: its
  minute or hour field starts with `*`. That is Debian cron's test for a job that runs every so
  often rather than at a set time. Such a job fires both times; it would pause for an hour if not.
- For the same reason a job that follows real time makes up for a missing local time only where it
  does not run anyway at the instant that would have been it: `30 * * * *` runs every 60 minutes
  across the gap and misses nothing, `30 */2 * * *` misses 02:30 and fires at 03:00.
"""

from __future__ import annotations

import difflib
import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from jobs.errors import InvalidCron

EXPRESSION_LENGTH: Final = 255
"""Characters in an expression, at most."""
LATEST: Final = datetime.max.replace(tzinfo=UTC)
_ZONE_LENGTH: Final = 64
_SCHEDULES_KEPT: Final = 16_384
_MINUTE: Final = timedelta(minutes=1)
_SECOND: Final = timedelta(seconds=1)


class Fields(NamedTuple):
    """What the five fields of an expression stand for: sets of numbers, kept as bit masks."""

    minutes: int
    hours: int
    month_days: int
    months: int
    weekdays: int
    """0 and 7 are Sunday."""
    either_day: bool
    """Whether a day needs to match only one of the day fields."""
    follows_real_time: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """A parsed expression in one zone; `parse` makes it.

    Minutes, hours, months and days are sets of numbers, kept as bit masks. Of `days` there is one
    for each weekday (0 is Monday) that a month may begin with.
    """

    expression: str
    zone: ZoneInfo
    follows_real_time: bool
    minutes: int
    hours: int
    months: int
    days: tuple[int, ...]

    def next_after(self, instant: datetime) -> datetime:
        """The first occurrence strictly later than `instant` (aware), in UTC.

        It is a whole minute of the zone's clock.

        Raises:
            InvalidCron: there is none before the calendar ends with the year 9999.
        """
        occurrence = self._find_after(instant)
        if occurrence is None:
            raise InvalidCron("cron", f'"{self.expression}" does not fire again before year 10000')
        return occurrence

    def occurrences(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The first `limit` occurrences later than `after` and not later than `until`."""
        found: list[datetime] = []
        occurrence = self._find_after(after)
        while occurrence is not None and occurrence <= until and len(found) < limit:
            found.append(occurrence)
            occurrence = self._find_after(occurrence)
        return found

    def matches(self, occurrence: datetime) -> bool:
        """Whether the local time of an occurrence is one that the fields name.

        False: it stands for local times that do not exist, as the clock was put forward over them.
        """
        local = occurrence.astimezone(self.zone).replace(fold=0)
        return self._match_from(local) == local

    def _find_after(self, instant: datetime) -> datetime | None:
        if instant.tzinfo is None:
            raise ValueError("instant must be aware")
        try:
            local = instant.astimezone(self.zone)
            wall = local.replace(second=0, microsecond=0, fold=0)
            occurrence = self._first_from(wall + _MINUTE, instant)
            first, second = readings(wall)
            if self.follows_real_time and first < second and not local.fold:
                # The clock is about to be turned back: what it shows again comes earlier than
                # the local times that it has not shown yet.
                turned_back = _clock_change(self.zone, first, second)
                if occurrence is not None and occurrence > turned_back:
                    wall = turned_back.astimezone(self.zone).replace(fold=0)
                    occurrence = self._first_from(wall, instant)
        except OverflowError:
            return None
        return occurrence

    def _first_from(self, wall: datetime, after: datetime) -> datetime | None:
        """The first occurrence later than `after` among the local times from `wall` on."""
        while match := self._match_from(wall):
            for occurrence in self._instants(match):
                if occurrence > after:
                    return occurrence
            wall = match + _MINUTE
        return None

    def _instants(self, wall: datetime) -> tuple[datetime, ...]:
        """When a matching local time fires, in order."""
        first, second = readings(wall)
        if first == second:
            return (first,)
        if first < second:
            return (first, second) if self.follows_real_time else (first,)
        # The first reading of a missing time is the instant that it would be on an unchanged clock.
        instead = first.astimezone(self.zone)
        if self.follows_real_time and self._match_from(instead) == instead:
            return ()
        return (_clock_change(self.zone, second, first),)

    def _match_from(self, wall: datetime) -> datetime | None:
        """The first local time from `wall` on that the fields match, whether it exists or not."""
        year, month, day = wall.year, wall.month, wall.day
        if self._days_of(year, month) >> day & 1:
            if self.hours >> wall.hour & 1 and (minutes := _from(wall.minute, self.minutes)):
                return wall.replace(minute=_lowest(minutes))
            if hours := _from(wall.hour + 1, self.hours):
                return wall.replace(hour=_lowest(hours), minute=_lowest(self.minutes))
        day += 1
        while year <= MAXYEAR:
            if days := _from(day, self._days_of(year, month)):
                return wall.replace(
                    year=year,
                    month=month,
                    day=_lowest(days),
                    hour=_lowest(self.hours),
                    minute=_lowest(self.minutes),
                )
            year, month, day = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
        return None

    def _days_of(self, year: int, month: int) -> int:
        if not self.months >> month & 1:
            return 0
        first_weekday, length = monthrange(year, month)
        return self.days[first_weekday] & _up_to(length)


def parse(expression: str, timezone: str | None = None) -> Schedule:
    """The schedule that an expression describes. The ones used last are kept.

    Args:
        expression: minute, hour, day of month, month and day of week, separated by blanks. Each is
            a list of `*`, `*/n`, `a`, `a-b` and `a-b/n`. Months and weekdays have names too (`jan`,
            `sun`), and Sunday is 0 or 7, so that a range may end with it.
        timezone: an IANA name; None means UTC.

    Raises:
        InvalidCron: a field breaks a rule, the expression never fires, or the zone is unknown.
    """
    # Stored documents come here too, and somebody may have edited them by hand.
    if not isinstance(expression, str):
        raise InvalidCron("cron", "must be a string")
    if not isinstance(timezone, str | None):
        raise InvalidCron("timezone", "must be a string")
    return _parse(expression, "UTC" if timezone is None else timezone)


def fields_of(expression: str) -> Fields:
    """The numbers that each field of an expression stands for.

    Raises:
        InvalidCron: a field breaks a rule.
    """
    if len(expression) > EXPRESSION_LENGTH:
        raise InvalidCron("cron", f"must not be longer than {EXPRESSION_LENGTH} characters")
    if not expression.isascii() or not expression.replace("\t", " ").isprintable():
        raise InvalidCron("cron", "must be plain ASCII without control characters")
    texts = expression.split()
    if len(texts) != len(_FIELDS):
        raise InvalidCron(
            "cron",
            f"must have five fields (minute, hour, day of month, month, day of week), "
            f"not {len(texts)}; seconds and macros such as @daily are not supported",
        )
    minutes, hours, month_days, months, weekdays = (
        field.parse(text) for field, text in zip(_FIELDS, texts, strict=True)
    )
    return Fields(
        minutes=minutes,
        hours=hours,
        month_days=month_days,
        months=months,
        weekdays=weekdays,
        # Vixie cron's rule: a day field that starts with `*`, even as `*/2`, counts as
        # unrestricted. Only two restricted day fields are alternatives.
        either_day=not texts[2].startswith("*") and not texts[4].startswith("*"),
        follows_real_time=texts[0].startswith("*") or texts[1].startswith("*"),
    )


@lru_cache(maxsize=_SCHEDULES_KEPT)
def _parse(expression: str, timezone: str) -> Schedule:
    fields = fields_of(expression)
    if not fields.either_day and not any(
        fields.months >> month & 1 and fields.month_days & _up_to(length)
        for month, length in enumerate(_LONGEST, start=1)
    ):
        raise InvalidCron("cron", f'"{expression}" never fires: no such day in any of its months')
    weekdays = (_days_on(fields.weekdays, first_weekday) for first_weekday in range(7))
    return Schedule(
        expression=expression,
        zone=_zone(timezone),
        follows_real_time=fields.follows_real_time,
        minutes=fields.minutes,
        hours=fields.hours,
        months=fields.months,
        days=tuple(
            fields.month_days | days if fields.either_day else fields.month_days & days
            for days in weekdays
        ),
    )


@dataclass(frozen=True, slots=True)
class _Field:
    """One of the five fields: its name, its numbers and the names of the first few numbers."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def parse(self, text: str) -> int:
        """The numbers that the field stands for."""
        members = 0
        for item in text.split(","):
            members |= self._parse_item(item)
        return members

    def _parse_item(self, item: str) -> int:
        match = _ITEM.fullmatch(item.lower())
        if match is None:
            raise self._invalid(item, "must be *, */n, a, a-b, a-b/n or a list of these")
        first, last, step = match["first"], match["last"], match["step"]
        if first is None:
            low, high = self.low, self.high
        else:
            low = high = self._number(first, item)
            if last is not None:
                high = self._number(last, item)
            elif step is not None:
                raise self._invalid(item, f'needs a range: "{first}-{self.high}/{step}"')
        # A week may end with Sunday: sat-sun is 6-7.
        if last == "sun" and low > high:
            high = 7
        if low > high:
            raise self._invalid(
                item, f'must ascend: "{first}-{self.high},{self.low}-{last}" goes round the end'
            )
        stride = 1 if step is None else int(step)
        if not 1 <= stride <= self.high:
            raise self._invalid(item, f"must have a step from 1 to {self.high}")
        return sum(1 << number for number in range(low, high + 1, stride))

    def _number(self, text: str, item: str) -> int:
        if text in self.names:
            return self.low + self.names.index(text)
        if text.isdigit() and self.low <= int(text) <= self.high:
            return int(text)
        names = f" or a name such as {self.names[0]}" if self.names else ""
        raise self._invalid(item, f"must be from {self.low} to {self.high}{names}")

    def _invalid(self, item: str, problem: str) -> InvalidCron:
        return InvalidCron("cron", f'{self.name} "{item}" {problem}')


_ITEM: Final = re.compile(
    r"(?:\*|(?P<first>[0-9]+|[a-z]+)(?:-(?P<last>[0-9]+|[a-z]+))?)(?:/(?P<step>[0-9]+))?"
)
_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Days of each month, at most."""
_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _WEEKDAYS),
)


def _zone(name: str) -> ZoneInfo:
    if name in _zone_names():
        return ZoneInfo(name)
    if len(name) > _ZONE_LENGTH or not name.isascii() or not name.isprintable():
        raise InvalidCron("timezone", "must be an IANA name such as Europe/Berlin")
    raise InvalidCron(
        "timezone", f'"{name}" is not an IANA name such as Europe/Berlin{_hint(name)}'
    )


# A search takes milliseconds, and a bulk may hold a thousand items with one mistake.
@lru_cache(maxsize=256)
def _hint(name: str) -> str:
    spellings = {known.lower(): known for known in _zone_names()}
    close = difflib.get_close_matches(name.lower(), spellings, n=1)
    return f'; did you mean "{spellings[close[0]]}"?' if close else ""


@lru_cache(maxsize=1)
def _zone_names() -> frozenset[str]:
    # These two mean something else on each machine.
    return frozenset(available_timezones() - {"Factory", "localtime"})


def readings(wall: datetime) -> tuple[datetime, datetime]:
    """The instants that a local time may mean: with the offset before a clock change, and after.

    They are equal far from a change, ascend if the local time comes twice, descend if it is missing
    (PEP 495).
    """
    return wall.astimezone(UTC), wall.replace(fold=1).astimezone(UTC)


def _clock_change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first instant with the new offset; `before` still has the old one, `after` the new."""
    offset = after.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // (2 * _SECOND) * _SECOND
        if middle.astimezone(zone).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return after


def _days_on(weekdays: int, first_weekday: int) -> int:
    """The days that fall on `weekdays` (0 and 7 are Sunday) in a month that begins with the given
    weekday (0 is Monday).
    """
    weekdays |= weekdays >> 7
    return sum(1 << day for day in range(1, 32) if weekdays >> (first_weekday + day) % 7 & 1)


def _up_to(number: int) -> int:
    return (2 << number) - 1


def _from(number: int, members: int) -> int:
    return members >> number << number


def _lowest(members: int) -> int:
    return (members & -members).bit_length() - 1
