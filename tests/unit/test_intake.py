"""Concurrent submissions share inserts, and each still gets its own outcome."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from jobs.errors import KeyCollision, StoreUnavailable
from jobs.intake import Intake, Outcome
from jobs.lifecycle import Job
from tests.builders import a_job


class Store:
    """Stands in for the insert: can be held, and remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.taken: set[str] = set()
        self.failure: Exception | None = None

    def insert_each(self, jobs: Sequence[Job]) -> list[Outcome]:
        self.batches.append([job.idempotency_key for job in jobs])
        self.entered.release()
        assert self.gate.acquire(timeout=30)
        if self.failure is not None:
            raise self.failure
        if "unfit" in self.batches[-1]:
            raise ValueError("unfit")
        outcomes: list[Outcome] = []
        for job in jobs:
            if job.idempotency_key.startswith("collides"):
                outcomes.append(KeyCollision(job.idempotency_key))
            else:
                outcomes.append(job.idempotency_key not in self.taken)
            self.taken.add(job.idempotency_key)
        return outcomes


def wait_until_waiting(intake: Intake, count: int) -> None:
    deadline = threading.Event()
    while len(intake._waiting) < count:
        assert not deadline.wait(0.001)


def test_a_lone_job_is_inserted_at_once() -> None:
    store = Store()
    store.gate.release()

    assert Intake(store.insert_each).insert(a_job(idempotency_key="a")) is True
    assert store.batches == [["a"]]


def test_those_that_come_during_an_insert_share_the_next() -> None:
    store = Store()
    intake = Intake(store.insert_each)
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(intake.insert, a_job(idempotency_key="first"))
        assert store.entered.acquire(timeout=30)
        keys = ["a", "b", "first", "collides"]
        others = {key: threads.submit(intake.insert, a_job(idempotency_key=key)) for key in keys}
        wait_until_waiting(intake, len(keys))
        store.gate.release(2)

        assert first.result() is True
        outcomes = {key: other.result() for key, other in others.items()}

    assert [sorted(batch) for batch in store.batches] == [["first"], sorted(keys)]
    assert outcomes["a"] is outcomes["b"] is True
    assert outcomes["first"] is False
    assert isinstance(outcomes["collides"], KeyCollision)


def test_a_failure_reaches_all_that_shared_it_and_nobody_else() -> None:
    store = Store()
    intake = Intake(store.insert_each)
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(intake.insert, a_job())
        assert store.entered.acquire(timeout=30)
        others = [threads.submit(intake.insert, a_job()) for _ in range(3)]
        wait_until_waiting(intake, 3)
        store.gate.release()
        assert first.result() is True
        assert store.entered.acquire(timeout=30)
        store.failure = StoreUnavailable("away")
        store.gate.release()
        for other in others:
            with pytest.raises(StoreUnavailable):
                other.result()

        store.failure = None
        store.gate.release()
        assert intake.insert(a_job()) is True


def test_what_cannot_be_stored_fails_nobody_else() -> None:
    store = Store()
    intake = Intake(store.insert_each)
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(intake.insert, a_job())
        assert store.entered.acquire(timeout=30)
        unfit = threads.submit(intake.insert, a_job(idempotency_key="unfit"))
        others = [threads.submit(intake.insert, a_job()) for _ in range(3)]
        wait_until_waiting(intake, 4)
        store.gate.release(10)

        assert first.result() is True
        with pytest.raises(ValueError, match="unfit"):
            unfit.result()
        assert [other.result() for other in others] == [True] * 3


def test_many_threads_lose_nothing() -> None:
    store = Store()
    store.gate.release(10_000)
    intake = Intake(store.insert_each)

    with ThreadPoolExecutor(32) as threads:
        keys = [f"key-{number % 1500}" for number in range(3000)]
        outcomes = list(threads.map(lambda key: intake.insert(a_job(idempotency_key=key)), keys))

    assert sum(outcome is True for outcome in outcomes) == 1500
    assert sum(len(batch) for batch in store.batches) == 3000
