"""What clients and people may do to jobs: the use cases behind the API and the commands.

Reading needs no use case: see `repository.jobs`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import NoReturn

from bson import ObjectId
from django.conf import settings

from jobs import cron, registry
from jobs.errors import DuplicateKey, InvalidCron, InvalidJob, KeyCollision, WrongState
from jobs.intake import Intake, Outcome
from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from jobs.repository.documents import BrokenJob
from jobs.spawn import spawn
from jobs.submission import job_from

_RUNNABLE_TEMPLATE = (Status.PENDING, Status.PAUSED)
_MICROSECOND = timedelta(microseconds=1)


Refusal = InvalidJob | DuplicateKey | KeyCollision
"""Why a document did not become a job."""


class Services:
    """The use cases on one repository. Safe to share between threads."""

    def __init__(self, repository: Repository, job_types: Collection[str]) -> None:
        """
        Args:
            repository: where the jobs are.
            job_types: the types that may be submitted.
        """
        self.repository = repository
        self.job_types = job_types
        self._intake = Intake(repository.jobs.insert_each)

    def submit(self, document: object) -> Job:
        """Store the job that a decoded JSON document asks for.

        Raises:
            InvalidJob: the document breaks a rule; nothing was stored.
            DuplicateKey: a job with this key exists.
            KeyCollision: a job with another key has its id.
        """
        now = self.repository.clock.now()
        job = job_from(document, now=now, job_types=self.job_types)
        result = _result(job, self._intake.insert(job))
        if isinstance(result, Refusal):
            raise result
        return result

    def submit_many(self, documents: Sequence[object]) -> list[Job | Refusal]:
        """Store the good ones among many documents, in one bulk insert.

        Returns:
            For each document, in order: its job, or why there is none.
        """
        now = self.repository.clock.now()
        results: list[Job | Refusal] = []
        for document in documents:
            try:
                results.append(job_from(document, now=now, job_types=self.job_types))
            except InvalidJob as exc:
                results.append(exc)
        jobs = [result for result in results if isinstance(result, Job)]
        outcomes = iter(self.repository.jobs.insert_each(jobs))
        return [
            _result(result, next(outcomes)) if isinstance(result, Job) else result
            for result in results
        ]

    def cancel(self, job_id: ObjectId) -> Job | BrokenJob:
        """Stop a job or template for good. Runs that a template has spawned go on.

        Raises:
            JobNotFound: no job has this id.
            WrongState: it is over already.
        """
        now = self.repository.clock.now()
        moved = self.repository.interventions.cancel(job_id, now=now)
        return moved or self._refuse(job_id, "cancelled")

    def redrive(self, job_id: ObjectId) -> Job | BrokenJob:
        """Give a dead letter or a cancelled job all its attempts again.

        A job is due at once, a template at its next occurrence.

        Raises:
            JobNotFound: no job has this id.
            WrongState: it is neither, or its cron expression cannot be used.
        """
        job = self.repository.jobs.get(job_id)
        now = self.repository.clock.now()
        due_at = _next_occurrence(job, now) if job.is_template else now
        moved = self.repository.interventions.redrive(job_id, due_at=due_at, now=now)
        return moved or self._refuse(job_id, "redriven")

    def pause(self, job_id: ObjectId) -> Job | BrokenJob:
        """Stop a template from spawning runs.

        Raises:
            JobNotFound: no job has this id.
            WrongState: it is no template, or not pending.
        """
        now = self.repository.clock.now()
        moved = self.repository.interventions.pause(job_id, now=now)
        return moved or self._refuse(job_id, "paused", only_templates=True)

    def resume(self, job_id: ObjectId) -> Job | BrokenJob:
        """Let a paused template go on with its next occurrence; those in between are dropped.

        Raises:
            JobNotFound: no job has this id.
            WrongState: it is no template, or not paused, or its expression cannot be used.
        """
        template = self._template(job_id, "resumed")
        now = self.repository.clock.now()
        next_at = _next_occurrence(template, now)
        moved = self.repository.interventions.resume(job_id, next_at=next_at, now=now)
        return moved or self._refuse(job_id, "resumed", only_templates=True)

    def run_now(self, job_id: ObjectId) -> Job:
        """Spawn a run of a template, apart from its occurrences.

        Returns:
            The run. Repeating the call spawns another.

        Raises:
            JobNotFound: no job has this id.
            WrongState: it is no template, or neither pending nor paused.
        """
        template = self._template(job_id, "run")
        if template.status not in _RUNNABLE_TEMPLATE:
            self._refuse(job_id, "run", only_templates=True)
        now = self.repository.clock.now()
        # A part of a millisecond, which no occurrence has, so that this run never takes an
        # occurrence's key; counted up when two people ask within one millisecond.
        at = now
        while True:
            at += _MICROSECOND
            run = replace(spawn(template, at, now, None), scheduled_at=now)
            if self.repository.jobs.insert([run]) == [True]:
                return run

    def _template(self, job_id: ObjectId, verb: str) -> Job:
        job = self.repository.jobs.get(job_id)
        return job if job.is_template else self._refuse(job_id, verb, only_templates=True)

    def _refuse(self, job_id: ObjectId, verb: str, *, only_templates: bool = False) -> NoReturn:
        job = self.repository.jobs.get(job_id)
        if only_templates and not job.is_template:
            raise WrongState(f"job {job_id} is no template and cannot be {verb}", job.status)
        raise WrongState(f"job {job_id} is {job.status} and cannot be {verb}", job.status)


def _result(job: Job, outcome: Outcome) -> Job | Refusal:
    if outcome is True:
        return job
    return outcome or DuplicateKey(job.idempotency_key, str(job.id))


def _next_occurrence(template: Job, now: datetime) -> datetime:
    try:
        return cron.parse(template.cron or "", template.timezone).next_after(now)
    except InvalidCron as exc:
        raise WrongState(f"job {template.id} cannot go on: {exc}", template.status) from exc


@cache
def default() -> Services:
    """The services on the store of the settings; one per process, made on first use.

    On first use, as a connection must not be shared with a forked process.
    """
    return Services(Repository.connect(settings.CHRONOS.store), registry.known_types())
