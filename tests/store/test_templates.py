"""Cron templates: which are due, and that each moves on once per occurrence."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from jobs.lifecycle import LIVE, Job, Status, job_id_for
from jobs.repository import Repository
from jobs.repository.templates import Advance
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

MINUTE: Final = timedelta(minutes=1)


def a_due_template(**overrides: Any) -> Job:
    return a_template(**({"scheduled_at": NOW} | overrides))


def test_due_templates_come_by_age(repo: Repository) -> None:
    younger, older = a_due_template(), a_due_template(scheduled_at=NOW - MINUTE)
    repo.jobs.insert(
        [
            younger,
            older,
            a_template(scheduled_at=NOW + MINUTE),
            a_due_template(status=Status.PAUSED),
            a_job(),
        ]
    )

    assert repo.templates.due(now=NOW, limit=10) == [older, younger]
    assert repo.templates.due(now=NOW, limit=1) == [older]


def test_a_due_template_that_cannot_be_read_is_dead_lettered(
    repo: Repository, documents: Documents
) -> None:
    broken, good = a_due_template(), a_due_template()
    repo.jobs.insert([broken, good])
    documents.update_one({"_id": broken.id}, {"$set": {"missed": None}})

    assert repo.templates.due(now=NOW, limit=10) == [good]

    document = documents.find_one({"_id": broken.id})
    assert document is not None
    assert document["status"] == "dlq"
    assert "missed" in document["lastError"]


def test_the_next_due_time_is_that_of_the_earliest_template(repo: Repository) -> None:
    assert repo.templates.next_due() is None
    repo.jobs.insert(
        [
            a_template(scheduled_at=NOW + 2 * MINUTE),
            a_template(scheduled_at=NOW + MINUTE),
            a_template(scheduled_at=NOW, status=Status.PAUSED),
            a_job(scheduled_at=NOW),
        ]
    )

    assert repo.templates.next_due() == NOW + MINUTE


def test_a_template_moves_on_and_counts_what_was_not_run(repo: Repository) -> None:
    template = a_due_template(missed=1, skipped=2)
    repo.jobs.insert([template])

    move = Advance(template.id, NOW, NOW + MINUTE, missed=10, skipped=20)
    assert repo.templates.advance([move], now=NOW + MINUTE) == 1

    assert repo.jobs.get(template.id) == replace(
        template, scheduled_at=NOW + MINUTE, updated_at=NOW + MINUTE, missed=11, skipped=22
    )


def test_of_two_schedulers_one_moves_a_template_on(repo: Repository) -> None:
    template = a_due_template()
    repo.jobs.insert([template])
    move = Advance(template.id, NOW, NOW + MINUTE, missed=1)

    moved = [repo.templates.advance([move], now=NOW) for _ in range(2)]

    assert moved == [1, 0]
    assert repo.jobs.get(template.id).missed == 1
    assert repo.templates.advance([], now=NOW) == 0


@pytest.mark.parametrize("status", [Status.PAUSED, Status.CANCELLED, Status.DLQ])
def test_a_template_that_was_stopped_meanwhile_does_not_move(
    repo: Repository, status: Status
) -> None:
    stopped, other = a_due_template(status=status), a_due_template()
    repo.jobs.insert([stopped, other])

    moves = [Advance(job.id, NOW, NOW + MINUTE) for job in (stopped, other)]
    assert repo.templates.advance(moves, now=NOW) == 1

    assert repo.jobs.get(stopped.id) == stopped
    assert repo.jobs.get(other.id).scheduled_at == NOW + MINUTE


def test_a_template_that_cannot_be_fired_is_dead_lettered_once(repo: Repository) -> None:
    template = a_due_template()
    repo.jobs.insert([template])

    moved = [
        repo.templates.dead_letter(template.id, reason="no such month", now=NOW) for _ in range(2)
    ]

    assert moved == [True, False]
    dead = repo.jobs.get(template.id)
    assert (dead.status, dead.last_error, dead.finished_at) == (Status.DLQ, "no such month", NOW)


@pytest.mark.parametrize("status", Status)
def test_a_template_has_a_live_run_until_the_run_is_over(repo: Repository, status: Status) -> None:
    busy, idle = job_id_for("busy"), job_id_for("idle")
    repo.jobs.insert(
        [
            a_job(template_id=busy, status=status),
            a_job(template_id=busy, status=Status.COMPLETED),
            a_job(template_id=job_id_for("another"), status=Status.RUNNING),
        ]
    )

    assert repo.templates.with_live_runs([busy, idle]) == ({busy} if status in LIVE else set())
    assert repo.templates.with_live_runs([]) == set()
