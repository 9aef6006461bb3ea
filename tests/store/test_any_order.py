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
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jobs import attempts
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
from jobs.repository.documents import from_document
from jobs.repository.templates import Advance
from jobs.spawn import spawn
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

LEASE: Final = timedelta(minutes=5)
QUEUED_TIMEOUT: Final = timedelta(minutes=1)
MINUTE: Final = timedelta(minutes=1)
OVER: Final = (Status.COMPLETED, Status.DLQ, Status.CANCELLED)
EXECUTORS: Final = ("e1", "e2", "e3")


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
        self.submitted: set[ObjectId] = set()
        self.batches: list[tuple[str, list[ObjectId]]] = []
        self.holdings: list[Holding] = []
        self.numbers = count(1)

    def stored(self) -> dict[ObjectId, Job]:
        return {document["_id"]: from_document(document) for document in self.documents.find()}

    def ids(self, *statuses: Status) -> list[ObjectId]:
        return sorted(id_ for id_, job in self.stored().items() if job.status in statuses)

    @contextmanager
    def acting(self, actor: Actor, fences: Collection[str] | None = None) -> Iterator[None]:
        """Check what the actor changes.

        Args:
            actor: who.
            fences: only jobs under these claims may change; None: the move needs no claim.
        """
        before = self.stored()
        yield
        after = self.stored()
        for job_id, old in before.items():
            new = after[job_id]
            if new == old:
                continue
            if new.status is not old.status:
                assert actor in MOVES[old.status, new.status]
            if fences is not None:
                assert old.claim_id in fences
            redriven = old.status in (Status.DLQ, Status.CANCELLED)
            assert new.attempts == 0 if redriven else new.attempts >= old.attempts

    # The scheduler.

    @rule(priority=st.integers(-1, 1), delay=st.integers(-1, 3), max_attempts=st.integers(1, 3))
    def submit(self, priority: int, delay: int, max_attempts: int) -> None:
        # Keys from a count of its own: an example must be the same each time it is run.
        job = a_job(
            idempotency_key=f"job-{next(self.numbers)}",
            priority=priority,
            scheduled_at=self.now + delay * MINUTE,
            max_attempts=max_attempts,
        )
        assert self.repo.jobs.insert([job, job]) == [True, False]
        self.submitted.add(job.id)

    @rule()
    def submit_template(self) -> None:
        key = f"template-{next(self.numbers)}"
        template = a_template(idempotency_key=key, scheduled_at=self.now + MINUTE)
        self.repo.jobs.insert([template])
        self.submitted.add(template.id)

    @rule(limit=st.integers(1, 5))
    def dispatch(self, limit: int) -> None:
        due = [job.id for job in self.repo.dispatch.due("noop", now=self.now, limit=limit)]
        claim_id = f"q{next(self.numbers)}"
        with self.acting(Actor.SCHEDULER):
            queued = self.repo.dispatch.queue(due, claim_id=claim_id, now=self.now)
        assert queued == set(due)
        self.batches.append((claim_id, due))

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def publishing_fails(self, data: st.DataObject) -> None:
        claim_id, ids = data.draw(st.sampled_from(self.batches))
        with self.acting(Actor.SCHEDULER, {claim_id}):
            self.repo.dispatch.release(ids, claim_id=claim_id, now=self.now)

    @rule(crashes=st.booleans())
    def fire(self, crashes: bool) -> None:
        with self.acting(Actor.SCHEDULER):
            templates = self.repo.templates.due(now=self.now, limit=10)
            runs = [
                spawn(each, each.scheduled_at, self.now, each.scheduled_at) for each in templates
            ]
            self.repo.jobs.insert(runs)
            self.submitted.update(run.id for run in runs)
            if not crashes:
                moves = [Advance(t.id, t.scheduled_at, self.now + MINUTE) for t in templates]
                assert self.repo.templates.advance(moves, now=self.now) == len(templates)
                assert self.repo.templates.advance(moves, now=self.now) == 0

    # An executor.

    @rule(data=st.data(), executor=st.sampled_from(EXECUTORS), start=st.booleans())
    def claim(self, data: st.DataObject, executor: str, start: bool) -> None:
        known = sorted(self.submitted) or [ObjectId()]
        ids = data.draw(st.lists(st.sampled_from(known), max_size=6))
        queued = set(self.ids(Status.QUEUED)).intersection(ids)
        claim_id = f"c{next(self.numbers)}"

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
        """Some claims of the past: good ones, stale ones, those of different executors."""
        chosen = data.draw(
            st.lists(st.sampled_from(range(len(self.holdings))), min_size=1, max_size=4)
        )
        by_job = {self.holdings[place].job.id: self.holdings[place] for place in chosen}
        return list(by_job.values())

    @precondition(lambda self: self.holdings)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        chosen = self.drawn(data)
        with self.acting(Actor.EXECUTOR, {each.claim_id for each in chosen}):
            started = self.repo.claims.start([each.claim for each in chosen], now=self.now)
        for each in chosen:
            assert each.is_believed or each.job.id not in started
            each.is_believed &= each.job.id in started

    @precondition(lambda self: self.holdings)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        chosen = self.drawn(data)
        until = self.now + LEASE
        with self.acting(Actor.EXECUTOR, {each.claim_id for each in chosen}):
            lost = self.repo.claims.extend([each.claim for each in chosen], until=until)
        for each in chosen:
            assert each.is_believed or each.job.id in lost
            each.is_believed &= each.job.id not in lost
            each.until = until if each.is_believed else each.until

    @precondition(lambda self: self.holdings)
    @rule(
        data=st.data(),
        outcome=st.sampled_from((*Outcome,)),
    )
    def finish(self, data: st.DataObject, outcome: Outcome) -> None:
        chosen = self.drawn(data)
        with self.acting(Actor.EXECUTOR, {each.claim_id for each in chosen}):
            before = self.stored()
            written = self.repo.claims.finish(
                [self.end(each, outcome) for each in chosen], now=self.now
            )
        good = [
            each
            for each in chosen
            if before[each.job.id].claim_id == each.claim_id
            and before[each.job.id].status is Status.RUNNING
        ]
        assert written == len(good)
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
        return attempts.failed(
            job, error="why", outcome=outcome, started_at=now, finished_at=now, random=0.5
        )

    @precondition(lambda self: self.holdings)
    @rule(data=st.data())
    def hand_back(self, data: st.DataObject) -> None:
        chosen = self.drawn(data)
        with self.acting(Actor.EXECUTOR, {each.claim_id for each in chosen}):
            count_ = self.repo.claims.hand_back([each.claim for each in chosen], now=self.now)
        assert count_ <= sum(each.is_believed for each in chosen)
        for each in chosen:
            each.is_believed = False

    # The reaper, time, and people.

    @rule()
    def reap(self) -> None:
        with self.acting(Actor.REAPER):
            before = self.now - QUEUED_TIMEOUT
            self.repo.recovery.requeue_lost_messages(queued_before=before, now=self.now)
            self.repo.recovery.reclaim_unstarted(now=self.now)
            expired = self.repo.recovery.expired(now=self.now, limit=10)
            lost = [
                attempts.failed(
                    job,
                    error="lost",
                    outcome=Outcome.LOST,
                    started_at=self.now,
                    finished_at=self.now,
                    random=0.5,
                )
                for job in expired
            ]
            assert self.repo.recovery.take_back(lost, now=self.now) == len(expired)

    @rule(seconds=st.sampled_from((1, 30, 90, 301)))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @precondition(lambda self: self.submitted)
    @rule(data=st.data(), wish=st.sampled_from(("cancel", "redrive", "pause", "resume")))
    def person(self, data: st.DataObject, wish: str) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.submitted)))
        interventions, now = self.repo.interventions, self.now
        with self.acting(Actor.PERSON):
            if wish == "cancel" and interventions.cancel(job_id, now=now):
                for each in self.holdings:
                    each.is_believed &= each.job.id != job_id
            elif wish == "redrive":
                interventions.redrive(job_id, due_at=now, now=now)
            elif wish == "pause":
                interventions.pause(job_id, now=now)
            elif wish == "resume":
                interventions.resume(job_id, next_at=now + MINUTE, now=now)

    @invariant()
    def no_job_is_lost(self) -> None:
        assert self.stored().keys() == self.submitted

    @invariant()
    def no_job_is_held_twice(self) -> None:
        live = Counter(
            each.job.id for each in self.holdings if each.is_believed and each.until >= self.now
        )
        assert all(number == 1 for number in live.values())

    @invariant()
    def every_document_fits_its_status(self) -> None:
        for job in self.stored().values():
            assert (job.lease_until is not None) == (job.status in LEASED)
            assert (job.claim_id is not None) == (job.status in IN_FLIGHT)
            assert job.started_at is None or job.status not in (Status.PENDING, Status.QUEUED)
            assert job.queued_at is None or job.status is not Status.PENDING
            assert (job.finished_at is not None) == (job.status in OVER)
            assert 0 <= job.attempts <= job.max_attempts
            assert len(job.history) <= HISTORY_LENGTH
            assert not job.is_template or job.status not in IN_FLIGHT

    def teardown(self) -> None:
        """Whatever happened, the rest can be run to its end."""
        for _ in range(20):
            live = [job for job in self.stored().values() if not job.is_template]
            if not any(job.status in LIVE for job in live):
                return
            self.now += 2 * LEASE
            self.reap()
            due = [job.id for job in self.repo.dispatch.due("noop", now=self.now, limit=100)]
            claim_id = f"c{next(self.numbers)}"
            self.repo.dispatch.queue(due, claim_id=claim_id, now=self.now)
            claimed = self.repo.claims.claim(
                due, owner="last", claim_id=claim_id, lease=LEASE, now=self.now, start=True
            )
            ends = [
                attempts.completed(job, started_at=self.now, finished_at=self.now)
                for job in claimed
            ]
            assert self.repo.claims.finish(ends, now=self.now) == len(due)
        raise AssertionError(f"still live: {live}")


def test_whatever_the_order_the_table_of_moves_holds(
    repo: Repository, documents: Documents
) -> None:
    class OnThisStore(AnyOrder):
        def __init__(self) -> None:
            super().__init__(repo, documents)

    run_state_machine_as_test(
        OnThisStore, settings=settings(max_examples=30, stateful_step_count=40, deadline=None)
    )
