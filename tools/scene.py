"""A store that looks as after a week of work: for screenshots, and to measure pages on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from bson import ObjectId

from jobs.audit import Author, Via
from jobs.bulk import Filter, Kind
from jobs.executions import Execution, LogLine, execution_id
from jobs.fields import KEY_LENGTH, TAG_LENGTH
from jobs.lifecycle import Attempt, Finish, Job, Outcome, Response, Status, job_id_for
from jobs.repository import Repository
from jobs.repository.attempt_logs import LogBatch
from jobs.repository.nodes import Node
from jobs.services import Services
from jobs.spawn import spawn
from jobs.statistics import Ledger

TENANTS: Final = ("acme", "globex", "initech", "umbrella", "hooli")
TYPES: Final = ("http", "noop", "log-message", "slow", "flaky")
_ERRORS: Final = (
    ("ConnectionError", "could not connect to 10.2.7.{n}: connection refused", None),
    ("HttpStatusError", "the target answered 422: order {n} is unknown", 422),
    ("TimeoutError", "no answer within 30 s", None),
    ("ValueError", 'the field "amount" of invoice {n} is <missing>', None),
)
_STATUSES: Final = (Status.COMPLETED, Status.PENDING, Status.DLQ, Status.CANCELLED)
_SHARES: Final = (0.85, 0.11, 0.03, 0.01)
_IN_FLIGHT: Final = 40
_BATCH: Final = 2_000
_WEEK: Final = timedelta(days=7)
_CRONS: Final = (
    ("*/5 * * * *", "UTC"),
    ("0 2 * * *", "Europe/Berlin"),
    ("30 9 * * MON-FRI", "America/New_York"),
    ("0 0 1 * *", "Asia/Tokyo"),
)
OPERATOR: Final = Author("demo-operator", Via.ADMIN)


@dataclass(frozen=True, slots=True)
class Scene:
    """What to look at."""

    dead: ObjectId
    completed: ObjectId
    running: ObjectId
    template: ObjectId
    definition: str
    operation: ObjectId
    tenant: str
    """Whose all of these are."""


def fill(services: Services, *, jobs: int, templates: int, seed: int = 1) -> Scene:
    """Store jobs in every state, with what belongs to them.

    Args:
        services: on an empty store that has its indexes.
        jobs: how many one-off jobs.
        templates: how many cron templates; those of every five minutes have runs.
        seed: another number gives other ones.
    """
    # Only the look of a page depends on it.
    chance = random.Random(seed)
    repository = services.repository
    now = repository.clock.now()
    made = _Maker(chance, now)
    ledger = Ledger()
    picked: dict[Status, ObjectId] = {}
    for batch in _batches(made.job(number) for number in range(jobs)):
        repository.jobs.insert(batch)
        executions = []
        for job in batch:
            if job.tenant_id == TENANTS[0]:
                picked.setdefault(job.status, job.id)
            if job.history:
                executions += [_execution(job, attempt) for attempt in job.history]
                ledger.note([(job, _finish(job))])
        repository.executions.record(executions)
    for number, stretches in enumerate(_batches(iter(ledger.take().items()))):
        repository.statistics.add(dict(stretches), batch=f"scene-{seed}-{number}")
    _log(repository, picked[Status.DLQ], now)
    template = _templates(services, made, templates)
    _definition(services)
    report_nodes(repository, since=now)
    for minute in range(30):
        at = now.replace(second=0, microsecond=0) - timedelta(minutes=minute)
        repository.buckets.insert(at, due=chance.randrange(900), by="scheduler-1", term=3, now=at)
        if minute:
            repository.buckets.close(at, partitions=4, by="scheduler-1", now=at)
    repository.dead_letters.assign_groups()
    _actions(services, repository)
    return Scene(
        dead=picked[Status.DLQ],
        completed=picked[Status.COMPLETED],
        running=picked[Status.RUNNING],
        template=template,
        definition="send-invoice",
        operation=_operation(services),
        tenant=TENANTS[0],
    )


class _Maker:
    def __init__(self, chance: random.Random, now: datetime) -> None:
        self._chance = chance
        self.now = now

    def job(self, number: int) -> Job:
        chance, now = self._chance, self.now
        is_first = number == 0
        # The first one has everything as long as it may be.
        key = f"scene-{number}".ljust(KEY_LENGTH if is_first else 0, "0")
        status = _in_flight_status(number) or chance.choices(_STATUSES, _SHARES)[0]
        # Squared, so that the last hours are the busiest.
        due = now - _WEEK * chance.random() ** 2
        job = Job(
            id=job_id_for(key),
            idempotency_key=key,
            tenant_id=TENANTS[0] if is_first else chance.choice(TENANTS),
            job_type=chance.choice(TYPES),
            status=status,
            scheduled_at=due,
            created_at=due - timedelta(minutes=5),
            updated_at=due,
            payload=f'{{"order":{number},"customer":"customer-{number % 997}"}}',
            priority=chance.choice((0, 0, 0, 5)),
            max_attempts=3,
            tags=("billing".ljust(TAG_LENGTH if is_first else 0, "g"), "nightly")[
                : 1 if is_first else chance.randrange(3)
            ],
        )
        started = due + timedelta(milliseconds=chance.expovariate(1 / 20))
        if status is Status.PENDING:
            return self._pending(job, number)
        if status in (Status.COMPLETED, Status.DLQ):
            return self._finished(job, started)
        if status is Status.CANCELLED:
            return replace(job, finished_at=started)
        return replace(
            job,
            scheduled_at=now - timedelta(seconds=1),
            queued_at=now,
            claimed_by="executor-1" if status is not Status.QUEUED else None,
            claimed_at=now if status is not Status.QUEUED else None,
            claim_id=f"claim{number}" if status is not Status.QUEUED else None,
            lease_until=now + timedelta(minutes=5) if status is not Status.QUEUED else None,
            started_at=now if status is Status.RUNNING else None,
        )

    def _pending(self, job: Job, number: int) -> Job:
        if number % 10 == 0:
            return replace(job, scheduled_at=self.now - timedelta(seconds=number % 90))
        due = self.now + _WEEK * self._chance.random()
        if number % 10 == 1:
            failed = self._attempt(1, self.now - timedelta(minutes=1), is_failure=True)
            return replace(
                job, scheduled_at=due, attempts=1, last_error=failed.error, history=(failed,)
            )
        return replace(job, scheduled_at=due)

    def _finished(self, job: Job, started: datetime) -> Job:
        if job.status is Status.COMPLETED:
            attempt = self._attempt(1, started, is_failure=False)
            return replace(
                job,
                history=(attempt,),
                claimed_by=attempt.executor,
                started_at=attempt.started_at,
                finished_at=attempt.finished_at,
            )
        history = tuple(
            self._attempt(number, started + timedelta(seconds=2**number), is_failure=True)
            for number in (1, 2, 3)
        )
        last = history[-1]
        return replace(
            job,
            attempts=3,
            history=history,
            last_error=last.error,
            # The end of an attempt moves the due time on to the next one.
            scheduled_at=last.started_at - timedelta(milliseconds=9),
            claimed_by=last.executor,
            started_at=last.started_at,
            finished_at=last.finished_at,
        )

    def _attempt(self, number: int, started: datetime, *, is_failure: bool) -> Attempt:
        finished = started + timedelta(milliseconds=self._chance.expovariate(1 / 300))
        executor = f"executor-{self._chance.randrange(1, 4)}"
        if not is_failure:
            return Attempt(number, executor, started, finished, Outcome.COMPLETED)
        name, text, code = self._chance.choice(_ERRORS)
        return Attempt(
            number,
            executor,
            started,
            finished,
            Outcome.FAILED,
            text.format(n=self._chance.randrange(250)),
            name,
            Response(code, '{"error": "unknown order"}') if code else None,
        )


def _in_flight_status(number: int) -> Status | None:
    if number >= _IN_FLIGHT:
        return None
    return (Status.RUNNING, Status.CLAIMED, Status.QUEUED)[number % 3]


def _execution(job: Job, attempt: Attempt) -> Execution:
    return Execution(
        id=execution_id(job.id, f"c{attempt.number}"),
        job_id=job.id,
        tenant_id=job.tenant_id,
        job_type=job.job_type,
        attempt=attempt,
        template_id=job.template_id,
        definition=job.definition,
    )


def _finish(job: Job) -> Finish:
    return Finish(job.id, "c1", job.status, job.attempts, job.history[-1])


def _log(repository: Repository, job_id: ObjectId, now: datetime) -> None:
    lines = [
        LogLine(now, level, "billing.handlers", text)
        for level, text in (
            ("INFO", "looking up the order"),
            ("WARNING", "the first look found nothing, trying the archive"),
            ("ERROR", "gave up after 2 looks"),
        )
    ]
    for number in (1, 2, 3):
        batch = LogBatch(execution_id(job_id, f"c{number}"), 0, lines)
        repository.attempt_logs.append([batch], now=now)


def _templates(services: Services, made: _Maker, count: int) -> ObjectId:
    documents = [
        {
            "idempotencyKey": f"scene-template-{number}",
            "tenantId": TENANTS[number % len(TENANTS)],
            "jobType": "log-message",
            "payload": {"message": "Good morning!"},
            "cron": _CRONS[number % len(_CRONS)][0],
            "timezone": _CRONS[number % len(_CRONS)][1],
        }
        for number in range(count)
    ]
    templates: list[Job] = []
    for batch in _batches(iter(documents)):
        templates += [each for each in services.submit_many(batch) if isinstance(each, Job)]
    last = made.now.replace(minute=made.now.minute // 5 * 5, second=0, microsecond=0)
    for template in templates[:: len(_CRONS)]:
        runs = []
        for number in range(24):
            at = last - timedelta(minutes=5 * number)
            run = replace(spawn(template, at, at, at), status=Status.COMPLETED)
            if number % 9 == 4:
                run = replace(run, status=Status.DLQ)
            runs.append(made._finished(run, at + timedelta(milliseconds=7)))
        services.repository.jobs.insert(runs)
    return templates[0].id


def _definition(services: Services) -> None:
    document = {
        "name": "send-invoice",
        "tenantId": TENANTS[0],
        "description": "Tells the billing service to send one invoice.",
        "jobType": "http",
        "delivery": {"url": "https://billing.example/invoices", "timeoutSeconds": 10},
        "maxAttempts": 5,
        "tags": ["billing"],
    }
    services.definitions.create(document)


def report_nodes(repository: Repository, *, since: datetime) -> None:
    """A sign of life of every process that a scene shows."""
    started = since - timedelta(hours=5)
    for node in (
        Node("scheduler-1", "scheduler", started, term=3),
        Node("scheduler-2", "scheduler", started),
        Node("executor-1", "executor", started, TYPES[:4], 2016, slots=16, busy=9),
        Node("executor-2", "executor", started, TYPES[:4], 0, slots=16, busy=3, is_draining=True),
        Node("reaper-1", "reaper", started),
    ):
        repository.nodes.report(node, now=repository.clock.now())


def _actions(services: Services, repository: Repository) -> None:
    page = repository.jobs.page(TENANTS[0], limit=50, status=Status.PENDING)
    waiting = [job for job in page.jobs if isinstance(job, Job) and not job.is_template]
    for job in waiting[:3]:
        services.cancel(job.id, by=OPERATOR)


def _operation(services: Services) -> ObjectId:
    """One that a reaper would go on with: it has done a part."""
    wanted = Filter(tenant_id=TENANTS[0], job_type=TYPES[1])
    operation = services.bulk.start(Kind.REDRIVE, wanted, tenants=None, by=OPERATOR)
    return operation.id


def _batches(items: Iterator[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
