"""What the editor of a template is shown: the next occurrences, and what clock changes do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from jobs.errors import InvalidCron
from jobs.preview import preview

FORWARD = "The clock goes forward by 1 h on this day."
BACK = "The clock goes back by 1 h on this day."


def notes(expression: str, timezone: str | None, now: datetime, count: int = 3) -> list[str | None]:
    made = preview(expression, timezone, now=now, count=count)
    return [occurrence.note for occurrence in made.occurrences]


def test_occurrences_are_shown_in_their_zone() -> None:
    made = preview("0 9 * * 1", "Asia/Tokyo", now=datetime(2026, 1, 15, tzinfo=UTC), count=2)

    assert made.words == "At 09:00, only on Monday"
    assert [each.at for each in made.occurrences] == [
        datetime(2026, 1, 19, tzinfo=UTC),
        datetime(2026, 1, 26, tzinfo=UTC),
    ]
    assert [each.local.isoformat() for each in made.occurrences] == [
        "2026-01-19T09:00:00+09:00",
        "2026-01-26T09:00:00+09:00",
    ]


def test_the_day_on_which_the_clock_goes_forward_is_marked() -> None:
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)

    assert notes("0 12 * * *", "Europe/Berlin", before, 2) == [FORWARD, None]
    assert notes("30 2 * * *", "Europe/Berlin", before, 2) == [
        f"{FORWARD} The local time that is meant does not exist: it fires right after the gap.",
        None,
    ]


def test_the_day_on_which_the_clock_goes_back_is_marked() -> None:
    midnight = datetime(2026, 10, 25, 0, tzinfo=UTC)

    assert notes("30 2 * * *", "Europe/Berlin", midnight, 2) == [
        f"{BACK} 02:30 comes twice: it fires the first time only.",
        None,
    ]
    assert notes("*/30 * * * *", "Europe/Berlin", midnight) == [
        f"{BACK} 02:30 comes twice: this is the first time.",
        f"{BACK} 02:00 comes twice: this is the second time.",
        f"{BACK} 02:30 comes twice: this is the second time.",
    ]


def test_a_shift_of_half_an_hour_is_told_as_such() -> None:
    before = datetime(2026, 10, 3, tzinfo=UTC)

    assert notes("0 12 * * *", "Australia/Lord_Howe", before, 2)[1] == (
        "The clock goes forward by 30 min on this day."
    )


def test_the_end_of_the_calendar_ends_the_list() -> None:
    assert notes("0 0 31 12 *", None, datetime(9998, 1, 1, tzinfo=UTC), 5) == [None, None]


@pytest.mark.parametrize(
    ("expression", "timezone", "field"),
    [("0 25 * * *", None, "cron"), ("0 0 30 2 *", None, "cron"), ("0 0 * * *", "Mars", "timezone")],
)
def test_what_cannot_be_used_names_its_field(
    expression: str, timezone: str | None, field: str
) -> None:
    with pytest.raises(InvalidCron) as caught:
        preview(expression, timezone, now=datetime(2026, 1, 1, tzinfo=UTC), count=5)

    assert caught.value.field == field
