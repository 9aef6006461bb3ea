"""Pauses with an end: the scheduler resumes the template when that has come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from jobs.audit import Via
from jobs.lifecycle import CatchUp, Status
from jobs.repository import Repository
from scheduler.firing import Firing
from scheduler.resuming import Resuming
from scheduler.scheduler import Scheduler
from tests.builders import NOW, a_template
from tests.roles.conftest import LONG_TICK
from tests.waiting import wait_for

MINUTE: Final = timedelta(minutes=1)
FAR: Final = datetime(2999, 1, 1, tzinfo=UTC)
MIDNIGHT: Final = datetime(2026, 1, 16, tzinfo=UTC)


@pytest.fixture
def resuming(repo: Repository) -> Resuming:
    return Resuming(repo)


def test_a_pause_goes_on_until_its_end(repo: Repository, resuming: Resuming) -> None:
    template = a_template(status=Status.PAUSED, paused_until=MIDNIGHT)
    repo.jobs.insert([template])

    assert resuming.next_due(NOW) == MIDNIGHT
    assert resuming.step(MIDNIGHT - MINUTE) is False

    assert repo.jobs.get(template.id) == template


def test_an_occurrence_at_the_end_is_run_and_those_before_are_not(
    repo: Repository, resuming: Resuming
) -> None:
    template = a_template(
        cron="0 * * * *", status=Status.PAUSED, scheduled_at=NOW, paused_until=MIDNIGHT
    )
    repo.jobs.insert([template])

    assert resuming.step(MIDNIGHT + MINUTE) is False

    resumed = repo.jobs.get(template.id)
    assert (resumed.status, resumed.scheduled_at) == (Status.PENDING, MIDNIGHT)
    assert resumed.paused_until is None
    [entry], _ = repo.audit_log.page(None, limit=2)
    assert (entry.author.name, entry.author.via) == ("scheduler", Via.ROLE)


def test_occurrences_since_the_end_are_made_up_for(repo: Repository, resuming: Resuming) -> None:
    template = a_template(
        catch_up=CatchUp.ALL, status=Status.PAUSED, scheduled_at=NOW, paused_until=MIDNIGHT
    )
    repo.jobs.insert([template])

    resuming.step(MIDNIGHT + 2 * MINUTE)
    Firing(repo, batch=100, grace=MINUTE).step(MIDNIGHT + 2 * MINUTE)

    page = repo.jobs.page(template.tenant_id, limit=10, template_id=template.id)
    assert {run.occurrence_at for run in page.jobs} == {  # type: ignore[union-attr]
        MIDNIGHT + each * MINUTE for each in range(3)
    }


def test_what_cannot_be_used_becomes_a_dead_letter(repo: Repository, resuming: Resuming) -> None:
    template = a_template(cron="nonsense", status=Status.PAUSED, paused_until=MIDNIGHT)
    repo.jobs.insert([template])

    resuming.step(MIDNIGHT)
    Firing(repo, batch=100, grace=MINUTE).step(MIDNIGHT)

    dead = repo.jobs.get(template.id)
    assert dead.status is Status.DLQ
    assert "five fields" in (dead.last_error or "")


def test_many_pauses_end_in_several_steps(repo: Repository, resuming: Resuming) -> None:
    templates = [a_template(status=Status.PAUSED, paused_until=MIDNIGHT) for _ in range(101)]
    repo.jobs.insert(templates)

    assert resuming.step(MIDNIGHT) is True
    assert resuming.step(MIDNIGHT) is False

    assert {repo.jobs.get(each.id).status for each in templates} == {Status.PENDING}


def test_the_end_of_a_pause_wakes_the_scheduler(
    repo: Repository, start_scheduler: Callable[..., Scheduler]
) -> None:
    """Long before its tick, also of a pause that begins while it sleeps."""
    early, late = (a_template(cron="0 0 1 1 *", scheduled_at=FAR) for _ in range(2))
    repo.jobs.insert([early, late])
    now = repo.clock.now()
    until = {early.id: now + timedelta(seconds=2), late.id: now + timedelta(seconds=3)}
    repo.interventions.pause(early.id, until=until[early.id], now=now)
    scheduler = start_scheduler(tick=LONG_TICK)
    wait_for(lambda: scheduler.term is not None)
    repo.interventions.pause(late.id, until=until[late.id], now=now)

    wait_for(lambda: repo.template_changes.next_end() is None)

    for template_id, end in until.items():
        resumed = repo.jobs.get(template_id)
        assert resumed.status is Status.PENDING
        assert timedelta(0) <= resumed.updated_at - end < LONG_TICK / 4
