"""Documents that somebody edited by hand: no method fails on them, and no other job suffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, Final

import bson
import pytest
from bson import Code, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument

from jobs import attempts
from jobs.lifecycle import LEASED, Finish, Job, Outcome, Status, job_id_for
from jobs.messages import dead_letter_message, dispatch_message
from jobs.repository import Repository
from jobs.repository.documents import to_document
from jobs.repository.templates import Advance
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

LONG_AGO: Final = NOW - timedelta(hours=1)
LATER: Final = NOW + timedelta(hours=1)
ABSENT: Final = object()
VALUES: Final[tuple[Any, ...]] = (
    *(ABSENT, None, True, False, "", "x", 0, -1, 1.5, 2**31, 2**63 - 1, -(2**63)),
    *(float("nan"), float("inf"), Decimal128("1.5"), Decimal128("NaN"), MinKey(), MaxKey()),
    *(b"x", Regex("x"), Code("x"), Timestamp(1, 1), ObjectId(b"x" * 12)),
    *(LONG_AGO, LATER, datetime(1, 1, 1, tzinfo=UTC), DatetimeMS(1 << 60), DatetimeMS(-1 << 60)),
    *([], [1], ["x"], [None], [LONG_AGO, LATER], [LATER], [[]], [{}]),
    *({}, {"$gt": ""}, {"$exists": True}, {"a.b": {"": None}}),
)


def a_complete_job(status: Status, **changes: Any) -> Job:
    """A job that has all the fields its status may bring along."""
    at: dict[str, Any] = {
        "scheduled_at": LONG_AGO,
        "created_at": LONG_AGO,
        "payload": "{}",
        "tags": ("a",),
        "retry": {"base": 1},
        "timeout_seconds": 1,
        "template_id": job_id_for("template"),
        "occurrence_at": LONG_AGO,
        "last_error": "why",
        "history": (attempts_of_another_day(),),
    }
    if status in (Status.QUEUED, *LEASED):
        at |= {"queued_at": LONG_AGO, "claim_id": "old"}
    if status in LEASED:
        at |= {"claimed_by": "e", "claimed_at": LONG_AGO, "lease_until": LONG_AGO}
        at |= {"started_at": LONG_AGO}
    if status in (Status.COMPLETED, Status.DLQ, Status.CANCELLED):
        at |= {"finished_at": LONG_AGO, "result": "{}", "attempts": 1}
    return a_job(status=status, **(at | changes))


def attempts_of_another_day() -> Any:
    job = a_job(claimed_by="e")
    return attempts.completed(job, started_at=LONG_AGO, finished_at=LONG_AGO).attempt


def broken_copies(make: Callable[[], Job]) -> Iterator[dict[str, Any]]:
    """The document of a job, once for each field and each value that may stand in it."""
    names = to_document(make()).keys() - {"_id"} | {"dlqPublishedAt"}
    for name, value in product(sorted(names), VALUES):
        document = to_document(make())
        if value is ABSENT:
            document.pop(name, None)
        else:
            document[name] = value
        yield document
    for number, kind in product(range(10), (int, str, DatetimeMS)):
        yield to_document(make()) | {"_id": kind(number)}


def one_round(repo: Repository) -> None:
    """What all roles and readers do with all documents, once."""
    everything = 100_000
    repo.jobs.page("tenant-a", limit=5000)
    set(repo.dispatch.in_flight())
    repo.census.by_status(limit=everything)
    for job_type in repo.census.types_with_pending(limit=everything):
        repo.census.backlog(job_type, now=NOW, limit=2)
    repo.dispatch.next_due("noop", after=LONG_AGO - timedelta(days=1), until=LATER)
    repo.recovery.requeue_lost_messages(queued_before=NOW, now=NOW)
    repo.recovery.reclaim_unstarted(now=NOW)
    expired = repo.recovery.expired(now=NOW, limit=everything)
    repo.recovery.take_back([failed(job, Outcome.LOST) for job in expired], now=NOW)
    templates = repo.templates.due(now=NOW, limit=everything)
    repo.templates.with_live_runs([template.id for template in templates])
    repo.templates.advance(
        [Advance(each.id, each.scheduled_at, LATER, 1, 1) for each in templates], now=NOW
    )
    next_at = repo.templates.next_due()
    assert next_at is None or isinstance(next_at, datetime)
    due = repo.dispatch.due("noop", now=NOW, limit=everything)
    for job in due:
        dispatch_message(job)
        assert NOW - job.ready_at >= timedelta(0)
    queued = repo.dispatch.queue([job.id for job in due], claim_id="q", now=NOW)
    claimed = repo.claims.claim(
        list(queued), owner="e", claim_id="c", lease=timedelta(minutes=1), now=NOW
    )
    held = [(job.id, "c") for job in claimed]
    assert repo.claims.extend(held, until=LATER) == set()
    assert repo.claims.start(held, now=NOW) == {(job.id, "c") for job in claimed}
    assert repo.claims.finish([failed(job) for job in claimed], now=NOW) == len(claimed)
    letters = repo.dead_letters.unannounced(before=LATER, limit=everything)
    for letter in letters:
        dead_letter_message(letter)
    repo.dead_letters.mark_announced([letter.id for letter in letters], now=NOW)


def failed(job: Job, outcome: Outcome = Outcome.FAILED) -> Finish:
    return attempts.failed(
        job, error="why", outcome=outcome, started_at=NOW, finished_at=NOW, random=0.0
    )


@pytest.mark.parametrize("status", Status)
def test_no_job_edited_by_hand_stops_a_method(
    repo: Repository, documents: Documents, status: Status
) -> None:
    documents.insert_many(broken_copies(lambda: a_complete_job(status)))
    neighbours = [a_complete_job(each) for each in (Status.PENDING, Status.QUEUED, *LEASED)]
    repo.jobs.insert(neighbours)

    one_round(repo)

    for neighbour in neighbours:
        job = repo.jobs.get(neighbour.id)
        assert (job.status, job.attempts) in {(Status.PENDING, 1), (Status.PENDING, 2)}
    one_round(repo)
    unleased = {"$not": {"$gte": NOW}}
    stuck = documents.find({"status": {"$in": ["claimed", "running"]}, "leaseUntil": unleased})
    assert list(stuck) == []


def test_no_template_edited_by_hand_stops_a_method(repo: Repository, documents: Documents) -> None:
    due = {"scheduled_at": LONG_AGO, "timezone": "Europe/Berlin"}
    documents.insert_many(broken_copies(lambda: a_template(**due)))
    neighbour = a_template(**due)
    repo.jobs.insert([neighbour])

    one_round(repo)

    assert repo.jobs.get(neighbour.id).scheduled_at == LATER
    one_round(repo)
    assert repo.templates.due(now=NOW, limit=100_000) == []


def test_text_that_is_no_utf_8_hides_no_other_job(repo: Repository, documents: Documents) -> None:
    odd, neighbour = (a_complete_job(Status.PENDING, last_error="ÄÖ") for _ in range(2))
    raw = bson.encode(to_document(odd)).replace("ÄÖ".encode(), b"\xff\xfe\xff\xfe")
    documents.insert_one(RawBSONDocument(raw))
    repo.jobs.insert([neighbour])

    page = repo.jobs.page("tenant-a", limit=10)

    assert {job.id for job in page.jobs} == {odd.id, neighbour.id}
