"""The reaper takes back what got stuck, announces dead letters that were not, and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from confluent_kafka import Consumer
from prometheus_client import REGISTRY
from pymongo import MongoClient

from chronos_site.config import BrokerConfig, ReaperConfig, StoreConfig
from executor.executor import Executor
from jobs.broker.publisher import Publisher
from jobs.errors import StoreUnavailable
from jobs.lifecycle import Job, Outcome, Status
from jobs.messages import DLQ_TOPIC
from jobs.registry import Context, Fail
from jobs.repository import Repository
from reaper.reaper import Reaper
from tests.waiting import wait_for

Insert = Callable[..., list[Job]]
MakeReaper = Callable[..., Reaper]

TIMEOUT = timedelta(seconds=30)
LEASE = timedelta(seconds=60)
# So that the patience after an outage, a third of it, is short.
SHORT = timedelta(milliseconds=3)


class Moments(threading.Event):
    """A stop that never comes. Waiting for it takes no time, and what happens meanwhile is done."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.waited: list[float | None] = []
        self._meanwhile = meanwhile

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        self._meanwhile()
        return False


def in_flight(repo: Repository, insert: Insert, status: Status, **fields: object) -> Job:
    """A job that came to be queued, claimed or running just now."""
    [job] = insert(1, **fields)
    now = repo.clock.now()
    assert repo.dispatch.queue([job.id], claim_id="dispatch", now=now)
    if status is not Status.QUEUED:
        start = status is Status.RUNNING
        assert repo.claims.claim(
            [job.id], owner="gone", claim_id="claim", lease=LEASE, now=now, start=start
        )
    return repo.jobs.get(job.id)


def recovered(sweep: str) -> float:
    return REGISTRY.get_sample_value("reaper_recovered_jobs_total", {"sweep": sweep}) or 0


def test_nothing_is_taken_back_before_its_time(
    repo: Repository, insert: Insert, make_reaper: MakeReaper
) -> None:
    reaper = make_reaper(queued_timeout=TIMEOUT, claim_timeout=SHORT)
    statuses = (Status.QUEUED, Status.CLAIMED, Status.RUNNING)
    jobs = [in_flight(repo, insert, status) for status in statuses]

    assert reaper.run_once(jobs[0].updated_at + TIMEOUT - timedelta(seconds=1)) is False

    assert [repo.jobs.get(job.id) for job in jobs] == jobs


def test_a_job_whose_message_was_lost_is_pending_again(
    repo: Repository, insert: Insert, make_reaper: MakeReaper
) -> None:
    reaper = make_reaper(queued_timeout=TIMEOUT, claim_timeout=SHORT)
    job = in_flight(repo, insert, Status.QUEUED)
    before = recovered("queued")

    reaper.run_once(job.updated_at + TIMEOUT + timedelta(seconds=1))

    job = repo.jobs.get(job.id)
    assert job.status is Status.PENDING
    assert job.attempts == 0
    assert job.queued_at is None
    assert recovered("queued") == before + 1


def test_a_claim_that_never_started_costs_no_attempt(
    repo: Repository, insert: Insert, make_reaper: MakeReaper
) -> None:
    job = in_flight(repo, insert, Status.CLAIMED)
    before = recovered("claimed")

    make_reaper(claim_timeout=SHORT).run_once(job.updated_at + LEASE + timedelta(seconds=1))

    job = repo.jobs.get(job.id)
    assert job.status is Status.PENDING
    assert job.attempts == 0
    assert job.history == ()
    assert recovered("claimed") == before + 1


def test_a_running_job_of_a_silent_executor_loses_an_attempt(
    repo: Repository, insert: Insert, make_reaper: MakeReaper
) -> None:
    job = in_flight(repo, insert, Status.RUNNING)
    later = job.updated_at + LEASE + timedelta(seconds=1)
    before = recovered("running")

    make_reaper(claim_timeout=SHORT).run_once(later)

    job = repo.jobs.get(job.id)
    assert job.status is Status.PENDING
    assert job.attempts == 1
    assert job.history[0].outcome is Outcome.LOST
    assert job.last_error == "executor gone gave no sign of life; the job was taken back"
    # The default delay of 2 s, spread out.
    assert timedelta(seconds=1) <= job.scheduled_at - later <= timedelta(seconds=3.1)
    assert recovered("running") == before + 1


def test_a_job_that_was_lost_too_often_is_a_dead_letter(
    repo: Repository, insert: Insert, make_reaper: MakeReaper
) -> None:
    job = in_flight(repo, insert, Status.RUNNING, attempts=2, max_attempts=3)

    make_reaper(claim_timeout=SHORT).run_once(job.updated_at + LEASE + timedelta(seconds=1))

    job = repo.jobs.get(job.id)
    assert job.status is Status.DLQ
    assert job.attempts == 3


def test_a_lease_that_is_extended_meanwhile_is_respected(
    repo: Repository, insert: Insert, make_reaper: MakeReaper, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = in_flight(repo, insert, Status.RUNNING)
    later = job.updated_at + LEASE + timedelta(seconds=1)
    find_expired = repo.recovery.expired

    def expired_then_extended(*, now: datetime, limit: int) -> list[Job]:
        found = find_expired(now=now, limit=limit)
        assert repo.claims.extend([(job.id, "claim")], until=now + LEASE) == set()
        return found

    monkeypatch.setattr(repo.recovery, "expired", expired_then_extended)
    make_reaper(claim_timeout=SHORT).run_once(later)

    assert repo.jobs.get(job.id).status is Status.RUNNING


def test_two_reapers_take_a_job_back_once(
    repo: Repository, insert: Insert, make_reaper: MakeReaper
) -> None:
    jobs = [in_flight(repo, insert, Status.RUNNING, max_attempts=9) for _ in range(20)]
    later = repo.clock.now() + LEASE + timedelta(seconds=1)
    reapers = [make_reaper(claim_timeout=SHORT) for _ in range(4)]
    threads = [threading.Thread(target=reaper.run_once, args=(later,)) for reaper in reapers]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    after = [repo.jobs.get(job.id) for job in jobs]
    assert [job.attempts for job in after] == [1] * 20
    assert [len(job.history) for job in after] == [1] * 20


def test_a_round_that_was_cut_off_is_followed_by_another(
    repo: Repository, insert: Insert, make_reaper: MakeReaper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reaper.reaper._BATCH", 3)
    jobs = [in_flight(repo, insert, Status.RUNNING) for _ in range(5)]
    reaper = make_reaper(claim_timeout=SHORT)
    later = repo.clock.now() + LEASE + timedelta(seconds=1)

    assert reaper.run_once(later) is True
    assert reaper.run_once(later) is False

    assert {repo.jobs.get(job.id).status for job in jobs} == {Status.PENDING}


def test_after_an_outage_executors_get_a_moment_before_their_silence_counts(
    repo: Repository, insert: Insert, make_reaper: MakeReaper, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = in_flight(repo, insert, Status.RUNNING)
    later = job.updated_at + LEASE + timedelta(seconds=1)
    # The executor is back as well, by the time that the reaper has waited after the outage.
    moments = Moments(lambda: repo.claims.extend([(job.id, "claim")], until=later + LEASE))
    reaper = make_reaper(moments, claim_timeout=timedelta(minutes=1))
    reaper.run_once(repo.clock.now())
    assert repo.claims.extend([(job.id, "claim")], until=job.lease_until or later) == set()

    def away(**_: object) -> int:
        raise StoreUnavailable("MongoDB does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(repo.recovery, "requeue_lost_messages", away)
        with pytest.raises(StoreUnavailable):
            reaper.run_once(later)
    reaper.run_once(later)

    assert len(moments.waited) == 2
    assert repo.jobs.get(job.id).status is Status.RUNNING


def test_a_reaper_that_has_just_started_waits_as_after_an_outage(
    repo: Repository, insert: Insert, make_reaper: MakeReaper
) -> None:
    moments = Moments()
    reaper = make_reaper(moments, claim_timeout=timedelta(seconds=15))
    job = in_flight(repo, insert, Status.RUNNING)
    later = job.updated_at + LEASE + timedelta(seconds=1)

    reaper.run_once(later)
    reaper.run_once(later)

    assert moments.waited == [5]


@pytest.fixture
def letters(broker_config: BrokerConfig, job_type: str) -> Iterator[Callable[[], list[str]]]:
    """The ids of this test's jobs announced in `jobs.dlq` so far, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker_config.brokers[0],
            "group.id": job_type,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([DLQ_TOPIC])
    seen: list[str] = []

    def look() -> list[str]:
        for message in consumer.consume(1000, timeout=0.1):
            assert message.error() is None
            letter = json.loads(message.value() or b"")
            if letter["jobType"] == job_type:
                assert message.key() == letter["jobId"].encode()
                seen.append(letter["jobId"])
        return seen

    yield look
    consumer.close()


def fail(context: Context) -> None:
    raise Fail("no such invoice")


def test_dead_letters_are_announced_by_the_executor(
    repo: Repository,
    queue: Insert,
    start_executor: Callable[..., Executor],
    wait_until_all: Callable[..., list[Job]],
    make_reaper: MakeReaper,
    letters: Callable[[], list[str]],
) -> None:
    start_executor(fail)

    jobs = wait_until_all(queue(3), Status.DLQ)

    wait_for(lambda: len(letters()) == 3)
    assert sorted(letters()) == sorted(str(job.id) for job in jobs)
    # Marked, so that the reaper does not announce them again.
    later = repo.clock.now() + timedelta(hours=1)
    wait_for(lambda: repo.dead_letters.unannounced(before=later, limit=10) == [])
    make_reaper(claim_timeout=SHORT).run_once(later)
    assert len(letters()) == 3


def test_a_crash_between_the_move_to_dlq_and_its_message_loses_no_message(
    repo: Repository,
    insert: Insert,
    make_reaper: MakeReaper,
    letters: Callable[[], list[str]],
) -> None:
    job = in_flight(repo, insert, Status.RUNNING, attempts=2, max_attempts=3)
    reaper = make_reaper(claim_timeout=SHORT)
    # Makes it a dead letter and, as far as this round goes, crashes.
    reaper.run_once(job.updated_at + LEASE + timedelta(seconds=1))
    before = recovered("dlq")
    assert letters() == []

    reaper.run_once(job.updated_at + LEASE + timedelta(minutes=1))
    reaper.run_once(job.updated_at + LEASE + timedelta(minutes=2))

    wait_for(letters)
    assert letters() == [str(job.id)]
    assert recovered("dlq") == before + 1


def test_a_dead_letter_that_kafka_refuses_does_not_hold_up_the_others(
    repo: Repository,
    store_config: StoreConfig,
    insert: Insert,
    make_reaper: MakeReaper,
    letters: Callable[[], list[str]],
) -> None:
    now = repo.clock.now()
    fields = {"status": Status.DLQ, "finished_at": now, "last_error": "no such invoice"}
    [huge], others = insert(1, **fields), insert(3, **fields)
    client: MongoClient[dict[str, object]] = MongoClient(store_config.uri)
    with client:
        client[store_config.database]["jobs"].update_one(
            {"_id": huge.id}, {"$set": {"tenantId": "x" * 2_000_000}}
        )

    make_reaper(claim_timeout=SHORT).run_once(now + timedelta(hours=1))

    wait_for(lambda: len(letters()) == 3)
    assert sorted(letters()) == sorted(str(job.id) for job in others)


def test_dead_letters_wait_for_kafka(
    repo: Repository, insert: Insert, broker_config: BrokerConfig
) -> None:
    now = repo.clock.now()
    insert(2, status=Status.DLQ, finished_at=now, last_error="no such invoice")
    nobody = Publisher(replace(broker_config, brokers=("127.0.0.1:1",)), "test")
    stop = threading.Event()
    reaper = Reaper(ReaperConfig(claim_timeout=SHORT), repository=repo, publisher=nobody, stop=stop)
    later = now + timedelta(hours=1)

    assert reaper.run_once(later) is False

    assert len(repo.dead_letters.unannounced(before=later, limit=10)) == 2
    nobody.close()
