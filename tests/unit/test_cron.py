"""Cron expressions: what is accepted, what it means in UTC, and what is refused with which words.

A generated expression carries the sets of numbers that it stands for, so that a plain
minute-by-minute evaluator can judge `jobs.cron` without reading expressions itself.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from croniter import croniter
from hypothesis import assume, given
from hypothesis import strategies as st

from jobs.cron import EXPRESSION_LENGTH, parse
from jobs.errors import InvalidCron
from tests.unit.cron_model import Expression, expressions, firings

NOW = datetime(2026, 3, 4, 10, 17, 30, tzinfo=UTC)  # a Wednesday
INSTANTS = st.timedeltas(timedelta(0), timedelta(days=365 * 230)).map(
    lambda age: datetime(1970, 1, 1, tzinfo=UTC) + age
)


def next_times(expression: str, count: int = 3, after: datetime = NOW) -> list[str]:
    schedule = parse(expression)
    found = schedule.occurrences(after, after + timedelta(days=40_000), count)
    return [f"{occurrence:%Y-%m-%d %H:%M}" for occurrence in found]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * *", ["2026-03-04 10:18", "2026-03-04 10:19", "2026-03-04 10:20"]),
        ("*/20 * * * *", ["2026-03-04 10:20", "2026-03-04 10:40", "2026-03-04 11:00"]),
        ("*/59 * * * *", ["2026-03-04 10:59", "2026-03-04 11:00", "2026-03-04 11:59"]),
        ("5-40/15 10 * * *", ["2026-03-04 10:20", "2026-03-04 10:35", "2026-03-05 10:05"]),
        ("0,30,17-18 * * * *", ["2026-03-04 10:18", "2026-03-04 10:30", "2026-03-04 11:00"]),
        ("0 2 * * *", ["2026-03-05 02:00", "2026-03-06 02:00", "2026-03-07 02:00"]),
        ("00 02 * * *", ["2026-03-05 02:00", "2026-03-06 02:00", "2026-03-07 02:00"]),
        ("0 0 1 1 *", ["2027-01-01 00:00", "2028-01-01 00:00", "2029-01-01 00:00"]),
        ("0 0 31 * *", ["2026-03-31 00:00", "2026-05-31 00:00", "2026-07-31 00:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00", "2036-02-29 00:00"]),
        ("0 9 * JAN,jul Mon", ["2026-07-06 09:00", "2026-07-13 09:00", "2026-07-20 09:00"]),
        ("0 0 * nov-dec/1 *", ["2026-11-01 00:00", "2026-11-02 00:00", "2026-11-03 00:00"]),
        ("\t0  2\t* * * ", ["2026-03-05 02:00", "2026-03-06 02:00", "2026-03-07 02:00"]),
        ("59 23 31 12 *", ["2026-12-31 23:59", "2027-12-31 23:59", "2028-12-31 23:59"]),
    ],
)
def test_expression_gives_these_times(expression: str, expected: list[str]) -> None:
    assert next_times(expression) == expected


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("0", "Sun"),
        ("7", "Sun"),
        ("SUN", "Sun"),
        ("sun-sun", "Sun"),
        ("7-7", "Sun"),
        ("*/7", "Sun"),
        ("5-7", "Fri Sat Sun"),
        ("fri-sun", "Fri Sat Sun"),
        ("sat-sun", "Sat Sun"),
        ("sun-mon", "Mon Sun"),
        ("mon-fri", "Mon Tue Wed Thu Fri"),
        ("mon-fri/2", "Mon Wed Fri"),
        ("1-7/2", "Mon Wed Fri Sun"),
        ("0-7", "Mon Tue Wed Thu Fri Sat Sun"),
        ("*/2", "Tue Thu Sat Sun"),
        ("fri-7,0-mon", "Mon Fri Sat Sun"),
    ],
)
def test_week_begins_and_ends_with_sunday(days: str, expected: str) -> None:
    monday = datetime(2026, 3, 2, tzinfo=UTC)

    found = parse(f"0 12 * * {days}").occurrences(monday, monday + timedelta(days=7), 10)

    assert " ".join(f"{occurrence:%a}" for occurrence in found) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # Both restricted: either may match.
        ("0 0 13 * 5", ["2026-03-06 00:00", "2026-03-13 00:00", "2026-03-20 00:00"]),
        ("0 0 30 2 1", ["2027-02-01 00:00", "2027-02-08 00:00", "2027-02-15 00:00"]),
        ("0 0 1-31 * 5", ["2026-03-05 00:00", "2026-03-06 00:00", "2026-03-07 00:00"]),
        # One starts with `*`: both must match.
        ("0 0 */2 * 1", ["2026-03-09 00:00", "2026-03-23 00:00", "2026-04-13 00:00"]),
        ("0 0 13 * */5", ["2026-03-13 00:00", "2026-09-13 00:00", "2026-11-13 00:00"]),
        ("0 0 29 2 */7", ["2032-02-29 00:00", "2060-02-29 00:00", "2088-02-29 00:00"]),
    ],
)
def test_day_fields_combine_as_in_vixie_cron(expression: str, expected: list[str]) -> None:
    assert next_times(expression) == expected


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("61 * * * *", 'minute "61" must be from 0 to 59'),
        ("60 * * * *", 'minute "60" must be from 0 to 59'),
        ("0-60 * * * *", 'minute "0-60" must be from 0 to 59'),
        ("* 24 * * *", 'hour "24" must be from 0 to 23'),
        ("* * 0 * *", 'day of month "0" must be from 1 to 31'),
        ("* * 32 * *", 'day of month "32" must be from 1 to 31'),
        ("* * * 13 *", 'month "13" must be from 1 to 12 or a name such as jan'),
        ("* * * mon *", 'month "mon" must be from 1 to 12 or a name such as jan'),
        ("* * * * 8", 'day of week "8" must be from 0 to 7 or a name such as sun'),
        ("* * * * monday", 'day of week "monday" must be from 0 to 7 or a name such as sun'),
        ("jan * * * *", 'minute "jan" must be from 0 to 59'),
        ("*/0 * * * *", 'minute "*/0" must have a step from 1 to 59'),
        ("*/60 * * * *", 'minute "*/60" must have a step from 1 to 59'),
        ("* */24 * * *", 'hour "*/24" must have a step from 1 to 23'),
        ("* * * * */8", 'day of week "*/8" must have a step from 1 to 7'),
        ("5/15 * * * *", 'minute "5/15" needs a range: "5-59/15"'),
        ("* 22-4 * * *", 'hour "22-4" must ascend: "22-23,0-4" goes round the end'),
        ("* * * * fri-mon", 'day of week "fri-mon" must ascend: "fri-7,0-mon" goes round the end'),
        ("* * * * 6-0", 'day of week "6-0" must ascend: "6-7,0-0" goes round the end'),
        ("1,,2 * * * *", 'minute "" must be *, */n, a, a-b, a-b/n or a list of these'),
        ("1, * * * *", 'minute "" must be *, */n, a, a-b, a-b/n or a list of these'),
        ("0 0 30 2 *", '"0 0 30 2 *" never fires: no such day in any of its months'),
        ("0 0 31 4,6 *", '"0 0 31 4,6 *" never fires: no such day in any of its months'),
        ("0 0 30-31 feb */2", '"0 0 30-31 feb */2" never fires: no such day in any of its months'),
    ],
)
def test_refusal_names_the_part_that_is_wrong(expression: str, problem: str) -> None:
    with pytest.raises(InvalidCron) as refusal:
        parse(expression)

    assert str(refusal.value) == f"cron {problem}"
    assert refusal.value.field == "cron"


OTHER_DIALECTS = """
    -1 1- - / */ */-1 */* 1.5 1e1 0x1 +1 ** *-5 *5 1-2-3 1/2/3 '1' ~
    L W 15W LW 5L mon#1 1#2 # ? R H H/5
"""


@pytest.mark.parametrize("item", OTHER_DIALECTS.split())
def test_other_dialects_are_refused_in_every_field(item: str) -> None:
    for position in range(5):
        fields = ["*"] * 5
        fields[position] = item
        with pytest.raises(InvalidCron):
            parse(" ".join(fields))


@pytest.mark.parametrize(
    "expression", ["", " ", "*", "* * * *", "* * * * * *", "0 0 1 1 * 2026", "@daily", "@every 5m"]
)
def test_any_number_of_fields_but_five_is_refused(expression: str) -> None:
    with pytest.raises(InvalidCron, match="must have five fields"):
        parse(expression)


@pytest.mark.parametrize(
    "character", ["²", "٣", "\uff11", "\n", "\0", "\v", "\x7f", "\xa0", "\ufeff", "\ud800"]
)
@pytest.mark.parametrize("expression", ["{}* * * * *", "1{} * * * *", "*{}* * * *", "* * * * *{}"])
def test_anything_but_plain_ascii_is_refused(expression: str, character: str) -> None:
    with pytest.raises(InvalidCron, match="must be plain ASCII"):
        parse(expression.format(character))


def test_length_is_limited() -> None:
    longest = ",".join(["0"] * 124) + " * * * *"
    assert len(longest) == EXPRESSION_LENGTH

    parse(longest)
    with pytest.raises(InvalidCron, match="must not be longer than 255 characters"):
        parse("1" + longest)


@pytest.mark.parametrize("value", [None, 5, True, ["* * * * *"], {}, b"* * * * *"])
def test_a_value_that_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidCron, match="cron must be a string"):
        parse(value)  # type: ignore[arg-type]


@given(st.text() | st.text("*/-,0123456789 abjmnsuLW#?@\t", max_size=60))
def test_any_text_is_parsed_or_refused_with_a_short_text(text: str) -> None:
    try:
        result = f"{parse(text).next_after(NOW)}"
    except InvalidCron as refusal:
        result = str(refusal)

    assert len(result.encode()) < 2 * EXPRESSION_LENGTH


def test_parsed_schedules_are_kept() -> None:
    assert parse("1 2 3 4 5") is parse("1 2 3 4 5", "UTC")


def test_next_is_strictly_later_than_an_occurrence() -> None:
    schedule = parse("0 2 * * *")
    occurrence = datetime(2026, 3, 5, 2, 0, tzinfo=UTC)

    assert schedule.next_after(occurrence - timedelta(microseconds=1)) == occurrence
    assert schedule.next_after(occurrence) == occurrence + timedelta(days=1)


def test_a_naive_instant_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="must be aware"):
        parse("* * * * *").next_after(NOW.replace(tzinfo=None))


def test_leap_day_waits_eight_years_where_a_century_has_none() -> None:
    after = datetime(2096, 3, 1, tzinfo=UTC)

    assert next_times("0 0 29 2 *", 2, after) == ["2104-02-29 00:00", "2108-02-29 00:00"]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Niue"])
def test_calendar_ends_with_an_error(zone: str) -> None:
    schedule = parse("0 0 29 2 *", zone)
    last = schedule.next_after(datetime(9995, 1, 1, tzinfo=UTC))

    assert last.year == 9996
    assert schedule.occurrences(last, datetime.max.replace(tzinfo=UTC), 5) == []
    with pytest.raises(InvalidCron, match="does not fire again before year 10000"):
        schedule.next_after(last)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_the_last_minute_of_the_calendar_is_no_crash(zone: str) -> None:
    with pytest.raises(InvalidCron, match="does not fire again"):
        parse("* * * * *", zone).next_after(datetime.max.replace(tzinfo=UTC))


def test_occurrences_exclude_the_start_and_include_the_end() -> None:
    schedule = parse("0 * * * *")
    start = datetime(2026, 3, 4, 10, 0, tzinfo=UTC)
    hours = [start + timedelta(hours=n) for n in range(4)]

    assert schedule.occurrences(start, hours[3], 10) == hours[1:]
    assert schedule.occurrences(start, hours[3], 2) == hours[1:3]
    assert schedule.occurrences(start, hours[3], 0) == []
    assert schedule.occurrences(start, start, 10) == []
    assert schedule.occurrences(hours[3], start, 10) == []


@given(expressions(), INSTANTS)
def test_next_is_the_first_match_in_utc(expression: Expression, instant: datetime) -> None:
    end = instant + timedelta(days=3)
    expected = firings(expression, "UTC", instant, end)

    found = parse(expression.text).occurrences(instant, end, 5_000)

    assert found == expected


@given(expressions(), INSTANTS)
def test_croniter_agrees_in_utc(expression: Expression, instant: datetime) -> None:
    month_day, weekday = expression.text.split()[2::2]
    # croniter has its own rule for day fields with a star among other things, and takes the month
    # `1-1` for every month.
    assume(all(text == "*" or "*" not in text for text in (month_day, weekday)))
    assume(not re.search(r"\b(\w+)-\1\b", expression.text, re.IGNORECASE))

    expected = next(croniter(expression.text, instant, ret_type=datetime))

    assert parse(expression.text).next_after(instant) == expected
