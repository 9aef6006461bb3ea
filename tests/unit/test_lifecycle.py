"""Statuses, the table of moves, and what follows from a job's key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.lifecycle import (
    IN_FLIGHT,
    LEASED,
    LIVE,
    MOVES,
    SHARDS,
    Actor,
    Status,
    job_id_for,
    shard_of,
)
from tests.builders import NOW, a_job, a_template

keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def leads_to(status: Status) -> set[Status]:
    return {after for before, after in MOVES if before is status}


def test_a_completed_job_moves_no_more() -> None:
    assert leads_to(Status.COMPLETED) == set()


def test_every_status_can_be_reached_from_pending_and_only_completed_is_final() -> None:
    reached = {Status.PENDING}
    while more := {after for status in reached for after in leads_to(status)} - reached:
        reached |= more

    assert reached == set(Status)
    assert {status for status in Status if not leads_to(status)} == {Status.COMPLETED}


def test_no_move_stays_where_it_is_and_each_has_an_actor() -> None:
    assert all(before is not after for before, after in MOVES)
    assert all(MOVES.values())
    assert frozenset().union(*MOVES.values()) == set(Actor)


def test_only_an_executor_claims_starts_and_completes() -> None:
    for (_, after), actors in MOVES.items():
        if after in (*LEASED, Status.COMPLETED):
            assert actors == {Actor.EXECUTOR}


def test_only_a_person_cancels_pauses_and_redrives() -> None:
    for (before, after), actors in MOVES.items():
        if Status.CANCELLED in (before, after) or after is Status.PAUSED:
            assert actors == {Actor.PERSON}
        if before is Status.DLQ:
            assert actors == {Actor.PERSON}


def test_whatever_is_live_can_be_cancelled() -> None:
    assert all(Status.CANCELLED in leads_to(status) for status in LIVE)


def test_leased_is_a_part_of_in_flight_and_that_of_live() -> None:
    assert set(LEASED) < set(IN_FLIGHT) < set(LIVE)


def test_the_id_of_a_key_never_changes() -> None:
    # Another id for a stored key would let that key be used a second time.
    assert str(job_id_for("nightly-report")) == "41db258f0b6b15a4fcfc06f0"
    assert shard_of(job_id_for("nightly-report")) == 0xF0


@given(keys, keys)
def test_keys_have_the_same_id_only_when_they_are_the_same(one: str, other: str) -> None:
    assert (job_id_for(one) == job_id_for(other)) == (one == other)


@given(keys)
def test_every_key_has_a_shard(key: str) -> None:
    assert shard_of(job_id_for(key)) in range(SHARDS)


def test_a_job_is_a_template_when_it_has_a_cron_expression() -> None:
    assert a_template().is_template
    assert not a_job().is_template


def test_a_job_could_run_since_it_was_due_or_was_submitted_where_that_came_later() -> None:
    assert a_job(scheduled_at=NOW, created_at=NOW - timedelta(hours=1)).ready_at == NOW
    assert a_job(scheduled_at=NOW - timedelta(hours=1), created_at=NOW).ready_at == NOW


@pytest.mark.parametrize(
    ("begun", "fields"),
    [
        (0, {}),
        (0, {"status": Status.QUEUED}),
        (0, {"status": Status.CLAIMED}),
        (1, {"status": Status.RUNNING}),
        (1, {"status": Status.COMPLETED}),
        (1, {"attempts": 1}),
        (2, {"attempts": 1, "status": Status.RUNNING}),
        (3, {"attempts": 2, "status": Status.COMPLETED}),
        (3, {"attempts": 3, "status": Status.DLQ}),
        (1, {"attempts": 1, "status": Status.CANCELLED}),
    ],
)
def test_attempts_that_began_are_those_that_failed_and_the_one_that_did_not(
    begun: int, fields: dict[str, Any]
) -> None:
    assert a_job(**fields).attempts_begun == begun


def test_an_attempt_that_a_person_cut_short_had_begun() -> None:
    over = {"status": Status.CANCELLED, "started_at": NOW, "finished_at": NOW}
    cut_short = a_job(updated_at=NOW, **over)
    discarded = a_job(attempts=3, updated_at=NOW + timedelta(hours=1), **over)

    assert cut_short.attempts_begun == 1
    assert discarded.attempts_begun == 3
