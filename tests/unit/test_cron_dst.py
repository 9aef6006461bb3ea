"""Where a zone's clock changes: missing local times, doubled ones, whole days that never were."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.cron import _hint, parse
from jobs.errors import InvalidCron
from tests.unit.cron_model import Expression, expressions, firings

ZONES = [
    "Africa/Cairo",  # forward at midnight
    "Africa/Casablanca",  # back and forth around Ramadan
    "America/Caracas",  # half an hour, twice, without summer time
    "America/Havana",  # midnight comes twice
    "America/New_York",
    "America/Nuuk",  # changed its base offset in 2023
    "America/Sao_Paulo",  # forward at midnight until 2018
    "America/St_Johns",  # at one minute past midnight until 2011
    "Antarctica/Troll",  # two hours
    "Asia/Gaza",
    "Asia/Kathmandu",  # a quarter of an hour in 1986
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Australia/Lord_Howe",  # half an hour
    "Europe/Berlin",
    "Europe/Dublin",  # summer is standard time, winter time is negative
    "Europe/Volgograd",
    "Pacific/Apia",  # no 30 December 2011
    "Pacific/Chatham",
    "Pacific/Kwajalein",  # no 21 August 1993
]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local_times(expression: str, zone: str, first_day: str, days: float) -> str:
    """Occurrences in some days of UTC, as the zone's clock shows them, with its offset."""
    after = utc(first_day)
    found = parse(expression, zone).occurrences(after, after + timedelta(days=days), 1_000)
    return ", ".join(f"{time.astimezone(ZoneInfo(zone)):%d %H:%M %z}" for time in found)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 7-9 3 *", "07 02:30 -0500, 08 03:00 -0400, 09 02:30 -0400"),
        ("0 2 7-9 3 *", "07 02:00 -0500, 08 03:00 -0400, 09 02:00 -0400"),
        ("0 3 7-9 3 *", "07 03:00 -0500, 08 03:00 -0400, 09 03:00 -0400"),
        ("0 2,3 8 3 *", "08 03:00 -0400"),
        ("15,45 2 8 3 *", "08 03:00 -0400"),
        ("15,45 2-3 8 3 *", "08 03:00 -0400, 08 03:15 -0400, 08 03:45 -0400"),
        ("*/30 2 8 3 *", "08 03:00 -0400"),
        ("50 1-3 8 3 *", "08 01:50 -0500, 08 03:00 -0400, 08 03:50 -0400"),
        (
            "30 */6,2 8 3 *",
            "08 00:30 -0500, 08 03:00 -0400, 08 06:30 -0400, 08 12:30 -0400, 08 18:30 -0400",
        ),
        ("0 0 8 3 *", "08 00:00 -0500"),
    ],
)
def test_missing_time_fires_once_right_after_the_gap(expression: str, expected: str) -> None:
    assert local_times(expression, "America/New_York", "2026-03-01", 31) == expected


@pytest.mark.parametrize("minute", ["*", "*/15", "30", "0", "7,37", "0-59/20"])
@pytest.mark.parametrize("night", ["2026-03-08", "2026-11-01"])
def test_hourly_job_keeps_its_rhythm(night: str, minute: str) -> None:
    start, end = utc(night), utc(night) + timedelta(days=1)

    found = parse(f"{minute} * * * *", "America/New_York").occurrences(start, end, 2_000)

    assert found == parse(f"{minute} * * * *").occurrences(start, end, 2_000)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 1 1-2 11 *", "01 01:30 -0400, 02 01:30 -0500"),
        ("0 1 1-2 11 *", "01 01:00 -0400, 02 01:00 -0500"),
        ("0 2 1-2 11 *", "01 02:00 -0500, 02 02:00 -0500"),
        ("0,30 1 1 11 *", "01 01:00 -0400, 01 01:30 -0400"),
        ("0 0-2 1 11 *", "01 00:00 -0400, 01 01:00 -0400, 01 02:00 -0500"),
        ("*/30 1 1 11 *", "01 01:00 -0400, 01 01:30 -0400, 01 01:00 -0500, 01 01:30 -0500"),
        ("0 */12,1 1 11 *", "01 00:00 -0400, 01 01:00 -0400, 01 01:00 -0500, 01 12:00 -0500"),
    ],
)
def test_doubled_time_fires_a_set_time_once_and_a_repeating_job_twice(
    expression: str, expected: str
) -> None:
    assert local_times(expression, "America/New_York", "2026-11-01", 29) == expected


def test_second_showing_of_an_hour_is_no_occurrence_of_a_set_time() -> None:
    schedule = parse("30 1 * * *", "America/New_York")

    assert schedule.next_after(utc("2026-11-01T05:30")) == utc("2026-11-02T06:30")
    assert schedule.next_after(utc("2026-11-01T06:10")) == utc("2026-11-02T06:30")


def test_doubled_hour_of_the_next_year_starts_with_its_first_showing() -> None:
    # Only the first Sunday of November, and only in the hour that comes twice.
    schedule = parse("*/40 1 1-7 11 */7", "America/New_York")

    found = schedule.occurrences(utc("2026-11-01T04:00"), utc("2028-01-01T00:00"), 10)

    assert [f"{occurrence:%Y-%m-%d %H:%M}" for occurrence in found] == [
        *("2026-11-01 05:00", "2026-11-01 05:40", "2026-11-01 06:00", "2026-11-01 06:40"),
        *("2027-11-07 05:00", "2027-11-07 05:40", "2027-11-07 06:00", "2027-11-07 06:40"),
    ]


LORD_HOWE, APIA, CASABLANCA = "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"
ST_JOHNS, SAO_PAULO, KATHMANDU = "America/St_Johns", "America/Sao_Paulo", "Asia/Kathmandu"


@pytest.mark.parametrize(
    ("zone", "expression", "first_day", "days", "expected"),
    [
        # 02:00 to 02:30 is missing, 01:30 to 02:00 comes twice.
        (LORD_HOWE, "15 2 5 10 *", "2025-10-01", 9, "05 02:30 +1100"),
        (LORD_HOWE, "15 */1 5 10 *", "2025-10-04T14:00", 0.125,
         "05 01:15 +1030, 05 02:30 +1100, 05 03:15 +1100"),
        (LORD_HOWE, "45 1 5 4 *", "2026-04-01", 9, "05 01:45 +1100"),
        (LORD_HOWE, "*/20 1 5 4 *", "2026-04-01", 9,
         "05 01:00 +1100, 05 01:20 +1100, 05 01:40 +1100, 05 01:40 +1030"),
        # Friday, 30 December 2011, never was.
        (APIA, "0 12 * * *", "2011-12-29", 3,
         "29 12:00 -1000, 31 00:00 +1400, 31 12:00 +1400, 01 12:00 +1400"),
        (APIA, "0 12 * * fri", "2011-12-25", 13, "31 00:00 +1400, 06 12:00 +1400"),
        (APIA, "30 * * * *", "2011-12-30T08:00", 0.125,
         "29 22:30 -1000, 29 23:30 -1000, 31 00:30 +1400"),
        ("Pacific/Kwajalein", "0 9 21 8 *", "1993-08-01", 31, "22 00:00 +1200"),
        # Midnight is missing; midnight comes twice.
        (SAO_PAULO, "0 0 * * *", "2018-11-03T12:00", 2, "04 01:00 -0200, 05 00:00 -0200"),
        ("America/Havana", "0 0 * * *", "2025-11-01T12:00", 2, "02 00:00 -0400, 03 00:00 -0500"),
        # Winter time is the exception, one hour back from standard time.
        ("Europe/Dublin", "30 1 * * *", "2026-03-28T12:00", 2, "29 02:00 +0100, 30 01:30 +0100"),
        ("Europe/Dublin", "30 1 * * *", "2026-10-24T12:00", 2, "25 01:30 +0100, 26 01:30 +0000"),
        # Ramadan is the exception.
        (CASABLANCA, "30 2 * * *", "2025-02-22T12:00", 2, "23 02:30 +0100, 24 02:30 +0000"),
        (CASABLANCA, "30 2 * * *", "2025-04-05T12:00", 2, "06 03:00 +0100, 07 02:30 +0100"),
        # Two hours are missing.
        ("Antarctica/Troll", "30 1,2 29 3 *", "2026-03-01", 31, "29 03:00 +0200"),
        # The offset changes by a quarter of an hour.
        (KATHMANDU, "10 0 1 1 *", "1985-12-31", 2, "01 00:15 +0545"),
        (KATHMANDU, "0 0 * * *", "2026-01-01", 1, "02 00:00 +0545"),
        # The clock is changed at one minute past midnight.
        (ST_JOHNS, "0 0 * * *", "2010-11-06T12:00", 2, "07 00:00 -0230, 08 00:00 -0330"),
        (ST_JOHNS, "30 0 14 3 *", "2010-03-01", 31, "14 01:01 -0230"),
        # The standard offset changes; there is no summer time.
        ("America/Caracas", "45 2 1 5 *", "2016-05-01", 1, "01 03:00 -0400"),
        ("Asia/Pyongyang", "45 23 4 5 *", "2018-05-01", 31, "05 00:00 +0900"),
    ],
)  # fmt: skip
def test_clock_of_this_zone(
    zone: str, expression: str, first_day: str, days: float, expected: str
) -> None:
    assert local_times(expression, zone, first_day, days) == expected


def test_offset_with_seconds_fires_at_whole_minutes_of_the_local_clock() -> None:
    # Liberia was 44 minutes and 30 seconds behind UTC until 7 January 1972, 00:00.
    schedule = parse("0 0 * * *", "Africa/Monrovia")

    found = schedule.occurrences(utc("1972-01-05T12:00"), utc("1972-01-08T12:00"), 10)

    assert [f"{occurrence:%d %H:%M:%S}" for occurrence in found] == [
        "06 00:44:30",
        "07 00:44:30",
        "08 00:00:00",
    ]


@pytest.mark.parametrize(
    ("zone", "problem"),
    [
        ("europe/berlin", '; did you mean "Europe/Berlin"?'),
        ("Europe/Berln", '; did you mean "Europe/Berlin"?'),
        ("utc", '; did you mean "UTC"?'),
        ("posixrules", ""),
        ("localtime", ""),
        ("Factory", ""),
        ("../../../etc/passwd", ""),
        ("/etc/localtime", ""),
        ("Europe", ""),
        ("Europe/../UTC", ""),
        (" UTC", '; did you mean "UTC"?'),
        ("+01:00", ""),
        ("", ""),
    ],
)
def test_unknown_zone_is_refused(zone: str, problem: str) -> None:
    with pytest.raises(InvalidCron) as refusal:
        parse("* * * * *", zone)

    assert str(refusal.value).startswith(f'timezone "{zone}" is not an IANA name')
    assert str(refusal.value).endswith(problem)
    assert refusal.value.field == "timezone"


@pytest.mark.parametrize(
    "zone", ["UTC\0", "Europe/Berlin\n", "Ünited", "\ud800", "A" * 65, 5, True]
)
def test_zone_that_cannot_be_shown_is_refused_without_showing_it(zone: object) -> None:
    with pytest.raises(InvalidCron, match=r"^timezone must be (an IANA name|a string)"):
        parse("* * * * *", zone)  # type: ignore[arg-type]


@cache
def clock_changes(zone: str) -> list[datetime]:
    """Noon before every change of the zone's offset, 1970 to 2050."""
    clock = ZoneInfo(zone)
    days = [datetime(1970, 1, 1, 12, tzinfo=UTC) + timedelta(days=n) for n in range(80 * 365)]
    offsets = [day.astimezone(clock).utcoffset() for day in days]
    return [day for day, (old, new) in zip(days, pairwise(offsets), strict=False) if old != new]


@st.composite
def instants_near_changes(draw: st.DrawFn) -> tuple[str, datetime]:
    zone = draw(st.sampled_from(ZONES))
    change = draw(st.sampled_from(clock_changes(zone)))
    return zone, change + timedelta(seconds=draw(st.integers(-3_600, 36 * 3_600)))


@settings(max_examples=200)
@given(
    st.one_of(expressions(), expressions(any_day=True)),
    instants_near_changes(),
)
def test_next_is_the_first_firing_near_a_clock_change(
    expression: Expression, place: tuple[str, datetime]
) -> None:
    zone, instant = place
    end = instant + timedelta(days=1)
    expected = firings(expression, zone, instant, end)

    found = parse(expression.text, zone).occurrences(instant, end, 5_000)

    assert found == expected


@given(expressions(), st.sampled_from(ZONES), st.timedeltas(timedelta(0), timedelta(days=80 * 365)))
def test_order_of_instants_is_kept(expression: Expression, zone: str, age: timedelta) -> None:
    schedule = parse(expression.text, zone)
    instant = datetime(1970, 1, 1, tzinfo=UTC) + age

    following = schedule.next_after(instant)
    between = instant + (following - instant) / 2

    assert following > instant
    assert following.second == following.microsecond == 0
    assert following.tzinfo is UTC
    assert schedule.next_after(between) == following


def test_the_likely_name_of_a_zone_is_searched_for_once() -> None:
    _hint.cache_clear()

    for minute in range(50):
        with pytest.raises(InvalidCron):
            parse(f"{minute} * * * *", "Europe/Berln")

    assert _hint.cache_info().misses == 1
