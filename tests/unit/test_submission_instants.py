"""RFC 3339, read strictly and written one way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.instants import format_instant, parse_instant


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-09-29T18:00:00Z", utc(2026, 9, 29, 18)),
        ("2026-09-29t18:00:00z", utc(2026, 9, 29, 18)),
        ("2026-09-29T18:00:00+02:00", utc(2026, 9, 29, 16)),
        ("2026-09-29T18:00:00-23:59", utc(2026, 9, 30, 17, 59)),
        ("2026-09-29T18:00:00-00:00", utc(2026, 9, 29, 18)),
        ("2026-09-29T18:00:00.1Z", utc(2026, 9, 29, 18, 0, 0, 100_000)),
        ("2026-09-29T18:00:00.1239999999999999999Z", utc(2026, 9, 29, 18, 0, 0, 123_000)),
        ("2024-02-29T00:00:00Z", utc(2024, 2, 29)),
        ("1970-01-01T00:00:00Z", utc(1970, 1, 1)),
        ("1969-12-31T23:30:00-01:00", utc(1970, 1, 1, 0, 30)),
        ("9999-12-31T23:59:59.999Z", utc(9999, 12, 31, 23, 59, 59, 999_000)),
    ],
)
def test_rfc_3339_is_read_to_the_millisecond(text: str, instant: datetime) -> None:
    assert parse_instant(text) == instant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-09-29",
        "2026-09-29T18:00:00",
        "2026-09-29 18:00:00Z",
        "2026-09-29T18:00Z",
        "2026-9-29T18:00:00Z",
        "20260929T180000Z",
        "2026-W40-2T18:00:00Z",
        "2026-09-29T18:00:00.Z",
        "2026-09-29T18:00:00,5Z",
        "2026-09-29T18:00:00+0200",
        "2026-09-29T18:00:00+02",
        "2026-09-29T18:00:00 Z",
        "2026-09-29T18:00:00Z\n",
        " 2026-09-29T18:00:00Z",
        "+2026-09-29T18:00:00Z",
        "12026-09-29T18:00:00Z",
        "٢٠٢٦-09-29T18:00:00Z",
        "1790704800",
        "now",
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="RFC 3339"):
        parse_instant(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2026-09-31T18:00:00Z", "no existing date"),
        ("2026-02-29T18:00:00Z", "no existing date"),
        ("2026-13-01T18:00:00Z", "no existing date"),
        ("2026-00-01T18:00:00Z", "no existing date"),
        ("2026-09-29T24:00:00Z", "no existing date"),
        ("2026-09-29T18:60:00Z", "no existing date"),
        ("0000-01-01T00:00:00Z", "no existing date"),
        ("2026-12-31T23:59:60Z", "leap second"),
        ("2026-09-29T18:00:00+24:00", "less than 24 hours"),
        ("2026-09-29T18:00:00+02:60", "less than 24 hours"),
        ("1969-12-31T23:59:59.999Z", "1970 to 9999"),
        ("1970-01-01T00:30:00+01:00", "1970 to 9999"),
        ("9999-12-31T23:30:00-01:00", "1970 to 9999"),
        ("0001-01-01T00:00:00+01:00", "1970 to 9999"),
    ],
)
def test_impossible_and_far_instants_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_instant(text)


def test_milliseconds_are_written_only_where_there_are_some() -> None:
    assert format_instant(utc(2026, 9, 29, 18)) == "2026-09-29T18:00:00Z"
    assert format_instant(utc(2026, 9, 29, 18, 0, 0, 120_000)) == "2026-09-29T18:00:00.120Z"
    assert format_instant(utc(2026, 9, 29, 18, 0, 0, 999)) == "2026-09-29T18:00:00Z"


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001
    st.integers(-1439, 1439),
)
def test_what_is_written_reads_back(local: datetime, offset: int) -> None:
    instant = local.replace(
        microsecond=local.microsecond // 1000 * 1000, tzinfo=timezone(timedelta(minutes=offset))
    )

    assert parse_instant(instant.isoformat()) == instant
    assert parse_instant(format_instant(instant.astimezone(UTC))) == instant
