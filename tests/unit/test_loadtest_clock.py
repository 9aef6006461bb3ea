"""How a load test learns the store's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jobs.load.clock import Sample, clock_offset

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MS = timedelta(milliseconds=1)


def test_no_offset_where_the_roundtrip_explains_the_difference() -> None:
    samples = [Sample(NOW, NOW + 9 * MS, NOW + 10 * MS)]

    assert clock_offset(samples) == timedelta()


def test_an_instant_that_was_cut_off_just_before_the_question_is_no_offset() -> None:
    asked_at = NOW + timedelta(microseconds=900)

    assert clock_offset([Sample(asked_at, NOW, asked_at + 2 * MS)]) == timedelta()


def test_the_quickest_sample_tells_the_offset() -> None:
    hour = timedelta(hours=1)
    samples = [
        Sample(NOW, NOW + hour + 90 * MS, NOW + 100 * MS),
        Sample(NOW, NOW + hour + 2 * MS, NOW + 4 * MS),
    ]

    assert clock_offset(samples) == hour


def test_a_store_whose_clock_is_behind_has_a_negative_offset() -> None:
    samples = [Sample(NOW, NOW - timedelta(seconds=3), NOW + 2 * MS)]

    assert clock_offset(samples) == -timedelta(seconds=3) - MS
