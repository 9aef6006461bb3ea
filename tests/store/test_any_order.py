"""All actors at random, with stale claims and repeated calls: the table of moves always holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Final

from bson import ObjectId
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jobs import attempts
from jobs.audit import API_CLIENT
from jobs.lifecycle import (
    HISTORY_LENGTH,
    IN_FLIGHT,
    LEASED,
    LIVE,
    MOVES,
    Actor,
    Finish,
    Job,
    Outcome,
    Status,
)
from jobs.repository import Repository
from jobs.repository.claims import Claim
from jobs.repository.documents import from_document
from jobs.repository.templates import Advance
from jobs.spawn import spawn
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

LEASE: Final = timedelta(minutes=5)
QUEUED_TIMEOUT: Final = timedelta(minutes=1)
MINUTE: Final = timedelta(minutes=1)
OVER: Final = (Status.COMPLETED, Status.DLQ, Status.CANCELLED)
WISHES: Final = (
    *("cancel", "redrive", "discard", "reschedule", "hasten", "change priority"),
    *("pause", "resume"),
)
EXECUTORS: Final = ("e1", "e2", "e3")
_ENDS: Final = st.sampled_from((True, None))


@dataclass
class Holding:
    """A claim as its executor knows it: good until it is told otherwise, or the lease ends."""

    job: Job
    claim_id: str
    until: datetime
    is_believed: bool = True

    @property
    def claim(self) -> tuple[ObjectId, str]:
        return self.job.id, self.claim_id


class AnyOrder(RuleBasedStateMachine):
    """The repository under a scheduler, three executors, a reaper and a person."""

    def __init__(self, repo: Repository, documents: Documents) -> None:
        super().__init__()
        self.repo = repo
        self.documents = documents
        self.documents.delete_many({})
        self.now = NOW
        self.jobs: dict[ObjectId, Job] = {}
        self.submitted: set[ObjectId] = set()
        self.holdings: list[Holding] = []
        # An example must be the same each time it is run, so keys and claims have their own count.
        self.numbers = count(1)

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self.numbers)}"

    def ids(self, *statuses: Status) -> list[ObjectId]:
        return sorted(job_id for job_id, job in self.jobs.items() if job.status in statuses)

    def look(self) -> None:
        self.jobs = {each["_id"]: from_document(each) for each in self.documents.find()}

    @contextmanager
    def acting(self, actor: Actor, fences: Collection[str] | None = None) -> Iterator[None]:
        """Check what the actor changes.

        Args:
            actor: who.
            fences: only jobs under these claims may change; None: the move needs no claim.
        """
        before = self.jobs
        yield
        self.look()
        for job_id, old in before.items():
            new = self.jobs[job_id]
            if new == old:
                continue
            if new.status is not old.status:
                assert actor in MOVES[old.status, new.status]
            if fences is not None:
                assert old.claim_id in fences
            redriven = old.status in OVER and new.status is Status.PENDING
            assert new.attempts == 0 if redriven else new.attempts >= old.attempts
            assert not new.history or new.history[: len(old.history)] == old.history

    def insert(self, jobs: list[Job]) -> None:
        with self.acting(Actor.PERSON):
            self.repo.jobs.insert(jobs)
        self.submitted.update(job.id for job in jobs)

    @initialize()
    def begin(self) -> None:
        self.insert([a_job(idempotency_key=self.fresh("job-"), max_attempts=3) for _ in range(3)])
        self.insert([a_template(idempotency_key="template")])

    @rule(priority=st.integers(-1, 1), delay=st.integers(-1, 2), max_attempts=st.integers(1, 2))
    def submit(self, priority: int, delay: int, max_attempts: int) -> None:
        job = a_job(
            idempotency_key=self.fresh("job-"),
            priority=priority,
            scheduled_at=self.now + delay * MINUTE,
            max_attempts=max_attempts,
        )
        self.insert([job, job])

    # The scheduler.

    @rule(
        fate=st.sampled_from(("arrives", "arrives", "is late", "fails")),
        executor=st.sampled_from(EXECUTORS),
        start=st.booleans(),
    )
    def dispatch(self, fate: str, executor: str, start: bool) -> None:
        self.now += timedelta(seconds=5)
        due = [job.id for job in self.repo.dispatch.due("noop", now=self.now, limit=3)]
        claim_id = self.fresh("q")
        with self.acting(Actor.SCHEDULER):
            queued = self.repo.dispatch.queue(due, claim_id=claim_id, now=self.now)
        assert queued == set(due)
        if fate == "arrives":
            self.claim(due, executor, start=start)
        if fate != "is late":
            # Also after arrival: the acknowledgement was lost.
            with self.acting(Actor.SCHEDULER, {claim_id}):
                released = self.repo.dispatch.release(due, claim_id=claim_id, now=self.now)
            assert released == (len(due) if fate == "fails" else 0)

    @precondition(lambda self: self.repo.templates.due(now=self.now, limit=1))
    @rule(crashes=st.booleans())
    def fire(self, crashes: bool) -> None:
        templates = self.repo.templates.due(now=self.now, limit=10)
        self.insert([spawn(t, t.scheduled_at, self.now, t.scheduled_at) for t in templates])
        if not crashes:
            moves = [Advance(t.id, t.scheduled_at, self.now + MINUTE, 1) for t in templates]
            with self.acting(Actor.SCHEDULER):
                assert self.repo.templates.advance(moves, now=self.now) == len(templates)
                # Another scheduler, which took itself for the leader.
                stale = [Advance(t.id, t.scheduled_at, self.now, 1) for t in templates]
                assert self.repo.templates.advance(stale, now=self.now) == 0

    # Executors.

    @rule(data=st.data(), executor=st.sampled_from(EXECUTORS), start=st.booleans())
    def old_messages_arrive(self, data: st.DataObject, executor: str, start: bool) -> None:
        known = sorted(self.submitted)
        self.claim(data.draw(st.lists(st.sampled_from(known), max_size=6)), executor, start=start)

    def claim(self, ids: list[ObjectId], executor: str, *, start: bool) -> None:
        queued = set(self.ids(Status.QUEUED)).intersection(ids)
        claim_id = self.fresh("c")

        def call() -> list[Job]:
            return self.repo.claims.claim(
                ids, owner=executor, claim_id=claim_id, lease=LEASE, now=self.now, start=start
            )

        with self.acting(Actor.EXECUTOR):
            claimed = call()
            assert call() == claimed
        assert {job.id for job in claimed} == queued
        self.holdings += [Holding(job, claim_id, self.now + LEASE) for job in claimed]

    def drawn(self, data: st.DataObject) -> list[Holding]:
        """Some claims of the past, one per job: good ones, and often those of an executor that
        was stalled while its jobs went to another.
        """
        leased = [each for each in self.holdings if self.jobs[each.job.id].status in LEASED]
        pool = [*self.holdings[-2:], *leased[-8:]]
        chosen = data.draw(st.lists(st.sampled_from(range(len(pool))), min_size=1, max_size=5))
        by_job = {pool[place].job.id: pool[place] for place in chosen}
        return list(by_job.values())

    @precondition(lambda self: self.holdings)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        chosen = self.drawn(data)
        with self.acting(Actor.EXECUTOR, {each.claim_id for each in chosen}):
            started = self.repo.claims.start([each.claim for each in chosen], now=self.now)
        self.learn(chosen, {each.claim for each in chosen} - started)

    @precondition(lambda self: self.holdings)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        chosen = self.drawn(data)
        until = self.now + LEASE
        with self.acting(Actor.EXECUTOR, {each.claim_id for each in chosen}):
            lost = self.repo.claims.extend([each.claim for each in chosen], until=until)
        self.learn(chosen, lost)
        for each in chosen:
            each.until = until if each.is_believed else each.until

    def learn(self, holdings: list[Holding], lost: set[Claim]) -> None:
        for each in holdings:
            really_held = self.jobs[each.job.id].claim_id == each.claim_id
            assert really_held == (each.claim not in lost)
            each.is_believed &= really_held

    @precondition(lambda self: self.holdings)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def finish(self, data: st.DataObject, outcome: Outcome) -> None:
        chosen = self.drawn(data)
        good = [
            each
            for each in chosen
            if self.jobs[each.job.id].claim_id == each.claim_id
            and self.jobs[each.job.id].status is Status.RUNNING
        ]
        with self.acting(Actor.EXECUTOR, {each.claim_id for each in chosen}):
            ends = [self.end(each, outcome) for each in chosen]
            assert self.repo.claims.finish(ends, now=self.now) == len(good)
            assert self.repo.claims.finish(ends, now=self.now) == 0
        for each in good:
            assert each.is_believed
            each.is_believed = False

    def end(self, holding: Holding, outcome: Outcome) -> Finish:
        job, now = holding.job, self.now
        assert job.claim_id == holding.claim_id
        if outcome is Outcome.COMPLETED:
            return attempts.completed(job, started_at=now, finished_at=now)
        if outcome is Outcome.SNOOZED:
            return attempts.snoozed(job, until=now + MINUTE, started_at=now, finished_at=now)
        if outcome is Outcome.HANDED_BACK:
            return attempts.handed_back(job, started_at=now, finished_at=now)
        return self.failed(job, outcome)

    @precondition(lambda self: self.holdings)
    @rule(data=st.data())
    def hand_back(self, data: st.DataObject) -> None:
        chosen = self.drawn(data)
        held = [each for each in chosen if self.jobs[each.job.id].claim_id == each.claim_id]
        with self.acting(Actor.EXECUTOR, {each.claim_id for each in chosen}):
            claims = [each.claim for each in chosen]
            assert self.repo.claims.hand_back(claims, now=self.now) == len(held)
        for each in chosen:
            each.is_believed = False

    # The reaper, time, and people.

    @rule(seconds=st.sampled_from((0, 61, 301)))
    def reap(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        with self.acting(Actor.REAPER):
            overdue = self.now - QUEUED_TIMEOUT
            self.repo.recovery.requeue_lost_messages(queued_before=overdue, now=self.now)
            self.repo.recovery.reclaim_unstarted(now=self.now)
            expired = self.repo.recovery.expired(now=self.now, limit=10)
            lost = [self.failed(job, Outcome.LOST) for job in expired]
            assert self.repo.recovery.take_back(lost, now=self.now) == len(expired)

    @precondition(lambda self: self.repo.recovery.expired(now=self.now + LEASE, limit=1))
    @rule(data=st.data())
    def reaper_is_late(self, data: st.DataObject) -> None:
        """Between finding expired jobs and taking them back, an executor gives a sign of life."""
        self.now += LEASE + MINUTE
        expired = self.repo.recovery.expired(now=self.now, limit=10)
        (self.heartbeat if data.draw(st.booleans()) else self.hand_back)(data)
        late = [job for job in expired if self.jobs[job.id] == job]
        with self.acting(Actor.REAPER):
            lost = [self.failed(job, Outcome.LOST) for job in expired]
            assert self.repo.recovery.take_back(lost, now=self.now) == len(late)

    @rule()
    def pauses_end(self) -> None:
        self.now += MINUTE
        changes, now = self.repo.template_changes, self.now
        with self.acting(Actor.SCHEDULER):
            for ended in changes.ended_pauses(now=now, limit=10):
                assert isinstance(ended, Job)
                assert ended.paused_until is not None
                assert changes.end_pause(
                    ended.id,
                    until=ended.paused_until,
                    next_at=now + MINUTE,
                    now=now,
                    by=API_CLIENT,
                )

    def failed(self, job: Job, outcome: Outcome) -> Finish:
        return attempts.failed(
            job,
            error="why",
            outcome=outcome,
            started_at=self.now,
            finished_at=self.now,
            random=0.5,
        )

    @rule(data=st.data(), wish=st.sampled_from(WISHES))
    def person(self, data: st.DataObject, wish: str) -> None:
        over = self.ids(Status.DLQ, Status.CANCELLED)
        ids = over if wish in ("redrive", "discard") and over else sorted(self.submitted)
        job_id = data.draw(st.sampled_from(ids))
        interventions, now = self.repo.interventions, self.now
        with self.acting(Actor.PERSON):
            if wish == "cancel" and interventions.cancel(job_id, now=now):
                for each in self.holdings:
                    each.is_believed &= each.job.id != job_id
            elif wish == "redrive":
                interventions.redrive(job_id, due_at=now, now=now)
            elif wish == "discard":
                interventions.discard(job_id, now=now)
            elif wish == "reschedule":
                interventions.reschedule(job_id, due_at=now + MINUTE, now=now)
            elif wish == "hasten":
                interventions.hasten(job_id, now=now)
            elif wish == "change priority":
                interventions.change_priority(job_id, 2, now=now)
            elif wish == "pause":
                interventions.pause(job_id, until=data.draw(_ENDS) and now + MINUTE, now=now)
            elif wish == "resume":
                interventions.resume(job_id, next_at=now + MINUTE, now=now)

    @invariant()
    def no_job_is_lost(self) -> None:
        assert self.jobs.keys() == self.submitted

    @invariant()
    def no_job_is_held_twice(self) -> None:
        live = Counter(
            each.job.id for each in self.holdings if each.is_believed and each.until >= self.now
        )
        assert all(number == 1 for number in live.values())

    @invariant()
    def every_document_fits_its_status(self) -> None:
        for job in self.jobs.values():
            assert (job.lease_until is not None) == (job.status in LEASED)
            assert (job.claim_id is not None) == (job.status in IN_FLIGHT)
            assert job.started_at is None or job.status not in (Status.PENDING, Status.QUEUED)
            assert job.queued_at is None or job.status is not Status.PENDING
            assert (job.finished_at is not None) == (job.status in OVER)
            assert 0 <= job.attempts <= job.max_attempts
            assert len(job.history) <= HISTORY_LENGTH
            assert not job.is_template or job.status not in IN_FLIGHT
            assert (job.paused_at is not None) == (job.status is Status.PAUSED)
            assert job.paused_until is None or job.status is Status.PAUSED

    def teardown(self) -> None:
        """Whatever happened, the rest can be run to its end."""
        for _ in range(3):
            self.reap(seconds=301)
            due = [job.id for job in self.repo.dispatch.due("noop", now=self.now, limit=100)]
            claim_id = self.fresh("c")
            self.repo.dispatch.queue(due, claim_id=claim_id, now=self.now)
            claimed = self.repo.claims.claim(
                due, owner="last", claim_id=claim_id, lease=LEASE, now=self.now, start=True
            )
            ends = [
                attempts.completed(job, started_at=self.now, finished_at=self.now)
                for job in claimed
            ]
            assert self.repo.claims.finish(ends, now=self.now) == len(due)
            self.look()
        assert [job for job in self.jobs.values() if job.status in LIVE and not job.cron] == []


def test_whatever_the_order_the_table_of_moves_holds(
    repo: Repository, documents: Documents
) -> None:
    class OnThisStore(AnyOrder):
        def __init__(self) -> None:
            super().__init__(repo, documents)

    run_state_machine_as_test(
        OnThisStore, settings=settings(max_examples=40, stateful_step_count=40)
    )
