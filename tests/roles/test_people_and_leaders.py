"""People pause, edit and cancel templates in the very instant in which two leaders fire them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from bson import ObjectId

from jobs.audit import Action, Author, Via
from jobs.delivery.secrets import Secrets
from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from jobs.services import Services
from jobs.template_revision import version_of
from scheduler.firing import Firing
from tests.builders import NOW, a_template
from tests.waiting import wait_for

OLD, NEW = '{"is":"old"}', '{"is":"new"}'
ALICE: Final = Author("alice", Via.ADMIN)
EACH: Final = 30
"""Templates of each deed."""
APART: Final = timedelta(milliseconds=5)
HOURLY: Final = "30 * * * *"


@pytest.fixture
def services(repo: Repository, job_type: str) -> Services:
    return Services(repo, {job_type}, Secrets(()))


def pause(services: Services, template: Job) -> None:
    services.templates.pause(template.id, {"reason": "why"}, by=ALICE)


def pause_and_resume(services: Services, template: Job) -> None:
    pause(services, template)
    services.templates.resume(template.id, by=ALICE)


def cancel(services: Services, template: Job) -> None:
    services.cancel(template.id, by=ALICE)


def edit(services: Services, template: Job) -> None:
    document = {"cron": template.cron, "payload": json.loads(NEW)}
    services.templates.edit(template.id, document, version=version_of(template), by=ALICE)


def edit_times(services: Services, template: Job) -> None:
    document = {"cron": HOURLY, "payload": json.loads(NEW)}
    services.templates.edit(template.id, document, version=version_of(template), by=ALICE)


Deed = Callable[[Services, Job], None]
DEEDS: Final[dict[Deed, tuple[Status, list[Action]]]] = {
    pause: (Status.PAUSED, [Action.TEMPLATE_PAUSE]),
    pause_and_resume: (Status.PENDING, [Action.TEMPLATE_RESUME, Action.TEMPLATE_PAUSE]),
    cancel: (Status.CANCELLED, [Action.JOB_CANCEL]),
    edit: (Status.PENDING, [Action.TEMPLATE_EDIT]),
    edit_times: (Status.PENDING, [Action.TEMPLATE_EDIT]),
}


@dataclass(frozen=True)
class Done:
    """What somebody did to a template that was about to fire."""

    deed: Deed
    template: Job
    answered_at: datetime


def test_each_occurrence_fires_once_and_none_that_is_due_after_the_answer(
    services: Services, repo: Repository, job_type: str
) -> None:
    over = threading.Event()

    def lead() -> None:
        firing = Firing(repo, batch=100, grace=timedelta(minutes=1))
        while not over.is_set():
            firing.step(repo.clock.now())

    def act(deed: Deed) -> list[Done]:
        """Now the deed is done a little before the template is due, now a little after."""
        done = []
        for number in range(EACH):
            due_at = repo.clock.now() + number % 5 * APART
            template = a_template(job_type=job_type, payload=OLD, scheduled_at=due_at)
            assert repo.jobs.insert([template]) == [True]
            deed(services, template)
            done.append(Done(deed, template, repo.clock.now()))
        return done

    with ThreadPoolExecutor() as threads:
        leaders = [threads.submit(lead) for _ in range(2)]
        try:
            done = [each for people in threads.map(act, DEEDS) for each in people]
            settled = repo.clock.now() + 5 * APART
            wait_for(lambda: repo.clock.now() > settled)
            wait_for(lambda: not repo.templates.due(now=settled, limit=1))
        finally:
            over.set()
        for leader in leaders:
            leader.result(30)

    for each in done:
        assert_in_order(repo, each)


def assert_in_order(repo: Repository, done: Done) -> None:
    """A template is as a person left it, and the occurrence had one run or was in time stopped."""
    template, deed = done.template, done.deed
    status, actions = DEEDS[deed]
    after = repo.jobs.get(template.id)
    page = repo.jobs.page(template.tenant_id, limit=100, template_id=template.id)
    runs = [run for run in page.jobs if isinstance(run, Job)]
    # Those of later minutes are of a template that goes on.
    first = [run for run in runs if run.occurrence_at == template.scheduled_at]
    entries, _ = repo.audit_log.page(None, limit=9, target=str(template.id))

    assert after.status is status
    assert [entry.action for entry in entries] == actions
    assert {entry.author for entry in entries} == {ALICE}
    assert len(first) <= 1
    assert {run.payload for run in first} <= {OLD, NEW}
    if deed is edit:
        # What leaves the times alone loses no occurrence.
        assert len(first) == 1
    if deed in (edit, edit_times):
        assert after.payload == NEW
    if deed is edit_times:
        assert (after.cron, after.scheduled_at.minute) == (HOURLY, 30)
    if status is not Status.PENDING:
        assert all(run.occurrence_at <= done.answered_at for run in runs if run.occurrence_at)


def test_a_template_that_is_mended_in_that_instant_is_no_dead_letter(
    services: Services, repo: Repository, job_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = a_template(job_type=job_type, cron="nonsense", scheduled_at=NOW)
    repo.jobs.insert([template])
    give_up = repo.templates.dead_letter

    def mended_meanwhile(template_id: ObjectId, **fields: Any) -> bool:
        edit_times(services, template)
        return give_up(template_id, **fields)

    monkeypatch.setattr(repo.templates, "dead_letter", mended_meanwhile)

    Firing(repo, batch=100, grace=timedelta(minutes=1)).step(repo.clock.now())

    after = repo.jobs.get(template.id)
    assert (after.status, after.cron) == (Status.PENDING, HOURLY)
