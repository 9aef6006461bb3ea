"""A model of cron to test `jobs.cron` against: it parses nothing and looks at every minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import assume
from hypothesis import strategies as st

MINUTE = timedelta(minutes=1)
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


@dataclass(frozen=True)
class Expression:
    """A cron expression and the numbers that each of its fields stands for."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    month_days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    def starts_with_star(self, *positions: int) -> bool:
        return any(self.text.split()[position].startswith("*") for position in positions)

    def matches(self, local: datetime) -> bool:
        on_month_day = local.day in self.month_days
        on_weekday = local.isoweekday() % 7 in self.weekdays
        return (
            local.minute in self.minutes
            and local.hour in self.hours
            and local.month in self.months
            and (
                on_month_day and on_weekday
                if self.starts_with_star(2, 4)
                else on_month_day or on_weekday
            )
        )


def firings(expression: Expression, zone: str, after: datetime, until: datetime) -> list[datetime]:
    """Every instant in (after, until] at which the expression fires.

    The zone's clock is read once a minute, from two days before, and only its face: a minute that
    it showed already comes twice, minutes that it jumps over are missing.
    """
    often = expression.starts_with_star(0, 1)
    found = []
    clock = ZoneInfo(zone)
    instant = after.replace(second=0, microsecond=0) - timedelta(days=2)
    shown = latest = instant.astimezone(clock).replace(tzinfo=None)
    while instant < until:
        instant += MINUTE
        previous, shown = shown, instant.astimezone(clock).replace(tzinfo=None)
        fires = expression.matches(shown) and (often or shown > latest)
        jump = shown - previous - MINUTE
        missing = previous + MINUTE
        while missing < shown and not fires:
            fires = expression.matches(missing) and not (
                often and expression.matches(missing + jump)
            )
            missing += MINUTE
        latest = max(latest, shown)
        if fires and after < instant <= until:
            found.append(instant)
    return found


@st.composite
def _fields(draw: st.DrawFn, low: int, high: int, names: list[str]) -> tuple[str, set[int]]:
    """A field and its numbers; half of the time just a star."""
    if draw(st.booleans()):
        return "*", set(range(low, high + 1))
    texts, numbers = [], set()
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["number", "range", "star"]))
        first, last = low, high
        text = "*"
        if kind != "star":
            first = draw(st.integers(low, high))
            last = first if kind == "number" else draw(st.integers(first, high))
            spelled = [str(first), str(last)]
            if names and last - low < len(names) and draw(st.booleans()):
                spelled = [names[first - low], names[last - low].upper()]
            text = spelled[0] if kind == "number" else "-".join(spelled)
        step = 1
        if kind != "number" and draw(st.booleans()):
            step = draw(st.integers(1, high))
            text = f"{text}/{step}"
        texts.append(text)
        numbers |= set(range(first, last + 1, step))
    return ",".join(texts), numbers


@st.composite
def expressions(draw: st.DrawFn, *, any_day: bool = False) -> Expression:
    """An expression that fires at some time; every day, for `any_day`."""
    star = ("*", set(range(32)))
    fields = [
        draw(_fields(0, 59, [])),
        draw(_fields(0, 23, [])),
        star if any_day else draw(_fields(1, 31, [])),
        star if any_day else draw(_fields(1, 12, MONTHS)),
        star if any_day else draw(_fields(0, 7, WEEKDAYS)),
    ]
    minutes, hours, month_days, months, weekdays = (frozenset(numbers) for _, numbers in fields)
    expression = Expression(
        text=" ".join(text for text, _ in fields),
        minutes=minutes,
        hours=hours,
        month_days=month_days,
        months=months,
        weekdays=frozenset(number % 7 for number in weekdays),
    )
    # Only every month has a 28th; `0 0 30 2 *` never fires.
    assume(min(month_days) <= 28 or not expression.starts_with_star(2, 4))
    return expression
