"""What becomes of a due template: which occurrences run, which are missed, when is the next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidCron
from jobs.lifecycle import CatchUp, Job
from scheduler.firing import CATCH_UP_LIMIT, COUNT_LIMIT, Plan, plan
from tests.builders import NOW, a_template

MINUTE = timedelta(minutes=1)
GRACE = MINUTE
FIRST_DAY = datetime(1, 1, 1, tzinfo=UTC)


def due(catch_up: CatchUp | None, *, late: timedelta, cron: str = "* * * * *") -> Plan:
    """The plan for a template whose first occurrence not dealt with was at NOW."""
    template = a_template(cron=cron, catch_up=catch_up, scheduled_at=NOW)
    return plan(template, now=NOW + late, grace=GRACE)


@pytest.mark.parametrize("catch_up", [*CatchUp, None])
@pytest.mark.parametrize("late", [timedelta(0), timedelta(seconds=59)])
def test_an_occurrence_on_time_is_run(catch_up: CatchUp | None, late: timedelta) -> None:
    assert due(catch_up, late=late) == Plan([NOW], NOW + MINUTE)


@pytest.mark.parametrize("catch_up", [CatchUp.ONE, None])
def test_one_runs_once_for_the_whole_gap(catch_up: CatchUp | None) -> None:
    assert due(catch_up, late=10 * MINUTE) == Plan([NOW], NOW + 11 * MINUTE, missed=10)


def test_one_fires_the_gap_under_the_same_key_whoever_decides_when() -> None:
    assert due(CatchUp.ONE, late=10 * MINUTE).fired == due(CatchUp.ONE, late=20 * MINUTE).fired


def test_all_runs_every_occurrence() -> None:
    planned = due(CatchUp.ALL, late=10 * MINUTE)

    assert planned == Plan([NOW + n * MINUTE for n in range(11)], NOW + 11 * MINUTE)


def test_all_is_bounded_and_the_rest_follows() -> None:
    planned = due(CatchUp.ALL, late=timedelta(days=1))

    assert len(planned.fired) == CATCH_UP_LIMIT
    assert planned.next_at == NOW + CATCH_UP_LIMIT * MINUTE
    assert planned.missed == 0


def test_none_runs_only_the_latest_and_only_within_the_grace() -> None:
    assert due(CatchUp.NONE, late=10 * MINUTE) == Plan(
        [NOW + 10 * MINUTE], NOW + 11 * MINUTE, missed=10
    )
    hourly = "0 * * * *"
    assert due(CatchUp.NONE, late=GRACE, cron=hourly).fired == [NOW]
    assert due(CatchUp.NONE, late=GRACE + timedelta(milliseconds=1), cron=hourly) == Plan(
        [], NOW + timedelta(hours=1), missed=1
    )


@pytest.mark.parametrize("catch_up", [CatchUp.ONE, CatchUp.NONE])
def test_a_gap_of_years_is_left_behind_in_one_step(catch_up: CatchUp) -> None:
    planned = due(catch_up, late=timedelta(days=3650))

    assert planned.next_at == NOW + timedelta(days=3650) + MINUTE
    assert COUNT_LIMIT <= planned.missed <= COUNT_LIMIT + 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cron": "61 * * * *"}, "minute"),
        ({"cron": ""}, "five fields"),
        ({"timezone": "Europe/Atlantis"}, "Europe/Atlantis"),
        ({"scheduled_at": datetime(9999, 12, 31, 23, 59, tzinfo=UTC)}, "year 10000"),
        # Local time would be in the year 0.
        (
            {
                "scheduled_at": FIRST_DAY,
                "timezone": "America/New_York",
                "catch_up": CatchUp.ALL,
            },
            "year 10000",
        ),
    ],
)
def test_what_cannot_be_fired_is_said(changes: dict[str, object], reason: str) -> None:
    template = a_template(**changes)

    with pytest.raises(InvalidCron, match=reason):
        plan(template, now=max(NOW, template.scheduled_at), grace=GRACE)


@pytest.mark.parametrize("catch_up", list(CatchUp))
def test_a_template_from_the_first_day_of_the_calendar_is_left_behind_too(
    catch_up: CatchUp,
) -> None:
    template = a_template(catch_up=catch_up, scheduled_at=FIRST_DAY, cron="0 0 1 1 *")

    assert plan(template, now=NOW, grace=GRACE).next_at > FIRST_DAY


crons = st.sampled_from(["* * * * *", "*/7 * * * *", "30 2 * * *", "0 0 1 * *", "15 */5 * * 1-5"])
zones = st.sampled_from([None, "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"])


@given(
    crons,
    zones,
    st.sampled_from(CatchUp),
    st.datetimes(datetime(2024, 1, 1), datetime(2026, 1, 1)),  # noqa: DTZ001 - made aware below
    st.timedeltas(timedelta(0), timedelta(days=2)),
)
def test_every_plan_moves_on_past_what_it_dealt_with(
    cron: str, zone: str | None, catch_up: CatchUp, first: datetime, late: timedelta
) -> None:
    first = first.replace(second=0, microsecond=0, tzinfo=UTC)
    template: Job = a_template(cron=cron, timezone=zone, catch_up=catch_up, scheduled_at=first)
    now = first + late

    planned = plan(template, now=now, grace=GRACE)

    assert planned.missed >= 0
    assert list(planned.fired) == sorted(set(planned.fired))
    assert all(first <= at <= now for at in planned.fired)
    assert planned.next_at > max([first, *planned.fired])
    if catch_up is not CatchUp.ALL:
        assert planned.next_at > now
        assert len(planned.fired) <= 1
    # However often it is decided again, the outcome is the same.
    assert plan(template, now=now, grace=GRACE) == planned
