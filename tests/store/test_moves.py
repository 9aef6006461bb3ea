"""Every writing method, tried on jobs in every status: only what the table of moves allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pytest

from jobs import attempts
from jobs.audit import API_CLIENT
from jobs.lifecycle import MOVES, Actor, Finish, Job, Outcome, Status
from jobs.repository import Repository
from jobs.repository.templates import Advance
from tests.builders import NOW, a_job, a_template

LATER: Final = NOW + timedelta(hours=1)
LEASE: Final = timedelta(minutes=5)
PENDING, QUEUED, CLAIMED, RUNNING = Status.PENDING, Status.QUEUED, Status.CLAIMED, Status.RUNNING
COMPLETED, DLQ, CANCELLED, PAUSED = Status.COMPLETED, Status.DLQ, Status.CANCELLED, Status.PAUSED

Act = Callable[[Repository, Job], object]


@dataclass(frozen=True)
class Case:
    """What an actor does to a job, and from where to where that moves it."""

    actor: Actor
    act: Act
    moves: Mapping[Status, Status]


def failed(job: Job, **changes: Any) -> Finish:
    return attempts.failed(job, error="why", started_at=NOW, finished_at=NOW, random=0.0, **changes)


def completed(job: Job) -> Finish:
    return attempts.completed(job, started_at=NOW, finished_at=NOW)


def claim(repo: Repository, job: Job, *, start: bool = False) -> None:
    repo.claims.claim([job.id], owner="e2", claim_id="c2", lease=LEASE, now=NOW, start=start)


ON_JOBS: Final[Mapping[str, Case]] = {
    "queue": Case(
        Actor.SCHEDULER,
        lambda repo, job: repo.dispatch.queue([job.id], claim_id="q", now=NOW),
        {PENDING: QUEUED},
    ),
    "release": Case(
        Actor.SCHEDULER,
        lambda repo, job: repo.dispatch.release([job.id], claim_id="c1", now=NOW),
        {QUEUED: PENDING},
    ),
    "claim": Case(Actor.EXECUTOR, claim, {QUEUED: CLAIMED}),
    "claim and start": Case(
        Actor.EXECUTOR, lambda repo, job: claim(repo, job, start=True), {QUEUED: RUNNING}
    ),
    "start": Case(
        Actor.EXECUTOR,
        lambda repo, job: repo.claims.start([(job.id, "c1")], now=NOW),
        {CLAIMED: RUNNING},
    ),
    "finish well": Case(
        Actor.EXECUTOR,
        lambda repo, job: repo.claims.finish([completed(job)], now=NOW),
        {RUNNING: COMPLETED},
    ),
    "finish badly": Case(
        Actor.EXECUTOR,
        lambda repo, job: repo.claims.finish([failed(job)], now=NOW),
        {RUNNING: PENDING},
    ),
    "finish for good": Case(
        Actor.EXECUTOR,
        lambda repo, job: repo.claims.finish([failed(job, is_final=True)], now=NOW),
        {RUNNING: DLQ},
    ),
    "hand back": Case(
        Actor.EXECUTOR,
        lambda repo, job: repo.claims.hand_back([(job.id, "c1")], now=NOW),
        {CLAIMED: PENDING, RUNNING: PENDING},
    ),
    "requeue lost messages": Case(
        Actor.REAPER,
        lambda repo, _: repo.recovery.requeue_lost_messages(queued_before=LATER, now=LATER),
        {QUEUED: PENDING},
    ),
    "reclaim unstarted": Case(
        Actor.REAPER,
        lambda repo, _: repo.recovery.reclaim_unstarted(now=LATER),
        {CLAIMED: PENDING},
    ),
    "take back": Case(
        Actor.REAPER,
        lambda repo, job: repo.recovery.take_back([failed(job, outcome=Outcome.LOST)], now=LATER),
        {RUNNING: PENDING},
    ),
    "take back for good": Case(
        Actor.REAPER,
        lambda repo, job: repo.recovery.take_back([failed(job, is_final=True)], now=LATER),
        {RUNNING: DLQ},
    ),
    "cancel": Case(
        Actor.PERSON,
        lambda repo, job: repo.interventions.cancel(job.id, now=NOW),
        dict.fromkeys((PENDING, QUEUED, CLAIMED, RUNNING, PAUSED), CANCELLED),
    ),
    "redrive": Case(
        Actor.PERSON,
        lambda repo, job: repo.interventions.redrive(job.id, due_at=NOW, now=NOW),
        {DLQ: PENDING, CANCELLED: PENDING},
    ),
    "discard": Case(
        Actor.PERSON,
        lambda repo, job: repo.interventions.discard(job.id, now=NOW),
        {DLQ: CANCELLED},
    ),
    "pause a job": Case(
        Actor.PERSON, lambda repo, job: repo.interventions.pause(job.id, now=NOW), {}
    ),
    "resume a job": Case(
        Actor.PERSON,
        lambda repo, job: repo.interventions.resume(job.id, next_at=LATER, now=NOW),
        {},
    ),
    "dead-letter a job as a template": Case(
        Actor.SCHEDULER,
        lambda repo, job: repo.templates.dead_letter(job.id, reason="why", now=NOW),
        {},
    ),
    "advance a job as a template": Case(
        Actor.SCHEDULER,
        lambda repo, job: repo.templates.advance([Advance(job.id, NOW, LATER)], now=NOW),
        {},
    ),
}
ON_TEMPLATES: Final[Mapping[str, Case]] = {
    "queue a template": Case(
        Actor.SCHEDULER,
        lambda repo, job: repo.dispatch.queue([job.id], claim_id="q", now=NOW),
        {},
    ),
    "cancel": Case(
        Actor.PERSON,
        lambda repo, job: repo.interventions.cancel(job.id, now=NOW),
        {PENDING: CANCELLED, PAUSED: CANCELLED},
    ),
    "redrive": Case(
        Actor.PERSON,
        lambda repo, job: repo.interventions.redrive(job.id, due_at=LATER, now=NOW),
        {DLQ: PENDING, CANCELLED: PENDING},
    ),
    "discard": Case(
        Actor.PERSON,
        lambda repo, job: repo.interventions.discard(job.id, now=NOW),
        {DLQ: CANCELLED},
    ),
    "reschedule a template": Case(
        Actor.PERSON,
        lambda repo, job: repo.interventions.reschedule(job.id, due_at=LATER, now=LATER),
        {},
    ),
    "hasten a template": Case(
        Actor.PERSON,
        lambda repo, job: repo.interventions.hasten(job.id, now=LATER),
        {},
    ),
    "change a template's priority": Case(
        Actor.PERSON,
        lambda repo, job: repo.interventions.change_priority(job.id, 1, now=LATER),
        {},
    ),
    "pause": Case(
        Actor.PERSON,
        lambda repo, job: repo.interventions.pause(job.id, now=NOW),
        {PENDING: PAUSED},
    ),
    "resume": Case(
        Actor.PERSON,
        lambda repo, job: repo.interventions.resume(job.id, next_at=LATER, now=NOW),
        {PAUSED: PENDING},
    ),
    "end a pause": Case(
        Actor.SCHEDULER,
        lambda repo, job: repo.template_changes.end_pause(
            job.id, until=NOW, next_at=LATER, now=NOW, by=API_CLIENT
        ),
        {PAUSED: PENDING},
    ),
    "dead-letter": Case(
        Actor.SCHEDULER,
        lambda repo, job: repo.templates.dead_letter(job.id, reason="why", now=NOW),
        {PENDING: DLQ},
    ),
}
WITHOUT_CLAIM: Final = (
    *("queue", "claim", "claim and start", "cancel", "redrive", "discard"),
    *("requeue lost messages", "reclaim unstarted"),
)
"""What needs no claim, and so is guarded by the status alone."""


def moves_of(repo: Repository, act: Act, jobs: list[Job]) -> dict[Status, Status]:
    """From where to where `act` moves the jobs; the others must stay as they are."""
    repo.jobs.insert(jobs)
    for job in jobs:
        act(repo, job)
    after = {job.status: repo.jobs.get(job.id) for job in jobs}
    for job in jobs:
        if after[job.status].status is job.status:
            assert after[job.status] == job
    return {old: job.status for old, job in after.items() if job.status is not old}


def in_every_status() -> list[Job]:
    return [
        a_job(status=status, claim_id="c1", claimed_by="e1", lease_until=NOW, queued_at=NOW)
        for status in Status
    ]


@pytest.mark.parametrize("name", ON_JOBS)
def test_a_method_moves_jobs_as_the_table_says_and_no_others(repo: Repository, name: str) -> None:
    case = ON_JOBS[name]

    moves = moves_of(repo, case.act, in_every_status())

    assert moves == case.moves
    assert all(case.actor in MOVES[move] for move in moves.items())


@pytest.mark.parametrize("name", ON_TEMPLATES)
def test_a_method_moves_templates_as_the_table_says_and_no_others(
    repo: Repository, name: str
) -> None:
    case = ON_TEMPLATES[name]
    statuses = (PENDING, PAUSED, CANCELLED, DLQ)

    templates = [a_template(status=status, paused_until=NOW) for status in statuses]

    moves = moves_of(repo, case.act, templates)

    assert moves == case.moves
    assert all(case.actor in MOVES[move] for move in moves.items())


@pytest.mark.parametrize("name", sorted(ON_JOBS.keys() - WITHOUT_CLAIM))
def test_a_stale_claim_never_writes(repo: Repository, name: str) -> None:
    jobs = [
        a_job(status=status, claim_id="other", claimed_by="e2", lease_until=NOW, queued_at=NOW)
        for status in Status
    ]

    def act(repo: Repository, job: Job) -> None:
        ON_JOBS[name].act(repo, a_job(idempotency_key=job.idempotency_key, claim_id="c1"))

    assert moves_of(repo, act, jobs) == {}


def test_every_move_of_the_table_is_made_by_some_method() -> None:
    made = {
        move for case in (*ON_JOBS.values(), *ON_TEMPLATES.values()) for move in case.moves.items()
    }

    # By methods that find a document unreadable: see test_unreadable.
    assert MOVES.keys() - made == {(CLAIMED, DLQ)}
