"""What clients and people may do to jobs: the use cases behind the API and the commands.

Reading needs no use case: see `repository.jobs`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from secrets import token_hex
from typing import Final, NoReturn, Protocol

from bson import ObjectId
from django.conf import settings

from jobs import origin, registry
from jobs.audit import API_CLIENT, Action, Author
from jobs.bulk_services import BulkServices
from jobs.definition_services import DefinitionServices
from jobs.delivery.secrets import Secrets
from jobs.errors import (
    DuplicateKey,
    InvalidJob,
    JobNotFound,
    KeyCollision,
    VersionMismatch,
    WrongState,
)
from jobs.fields import FIELDS
from jobs.intake import Intake, Outcome
from jobs.lifecycle import Job, Status
from jobs.origin import Origin
from jobs.repository import Repository
from jobs.repository.documents import BrokenJob
from jobs.spawn import clone_of
from jobs.submission import (
    Catalog,
    definition_named,
    due_at_from,
    job_from,
    schedule_from,
)
from jobs.template_services import TemplateServices, next_occurrence

_MARK_BYTES: Final = 6

Refusal = InvalidJob | DuplicateKey | KeyCollision
"""Why a document did not become a job."""


class _JobOf(Protocol):
    def __call__(
        self, document: object, *, now: datetime, catalog: Catalog, origin: Origin
    ) -> Job: ...


class Services:
    """The use cases on one repository. Safe to share between threads."""

    def __init__(
        self,
        repository: Repository,
        job_types: Collection[str],
        secrets: Secrets | None = None,
    ) -> None:
        """
        Args:
            repository: where the jobs are.
            job_types: the types that may be submitted.
            secrets: seals what is submitted; None: nothing secret may be.
        """
        self.repository = repository
        self.job_types = job_types
        self.secrets = secrets or Secrets(())
        self.definitions = DefinitionServices(repository, Catalog(job_types, self.secrets))
        self.templates = TemplateServices(repository, self.catalog)
        self.bulk = BulkServices(repository)
        self._intake = Intake(repository.jobs.insert_each)

    def submit(self, document: object) -> Job:
        """Store the job that a decoded JSON document asks for.

        Raises:
            InvalidJob: the document breaks a rule; nothing was stored.
            DuplicateKey: a job with this key exists.
            KeyCollision: a job with another key has its id.
        """
        return self._submit(document, job_from)

    def submit_many(self, documents: Sequence[object]) -> list[Job | Refusal]:
        """Store the good ones among many documents, in one bulk insert.

        Returns:
            For each document, in order: its job, or why there is none.
        """
        return self._submit_many(documents, job_from)

    def schedule(self, document: object) -> Job:
        """Store a one-time schedule. Raises as `submit` does."""
        return self._submit(document, schedule_from)

    def schedule_many(self, documents: Sequence[object]) -> list[Job | Refusal]:
        """Store the good ones among many schedules. Returns as `submit_many` does."""
        return self._submit_many(documents, schedule_from)

    def _submit(self, document: object, job_of: _JobOf) -> Job:
        now = self.repository.clock.now()
        catalog = self.catalog([document])
        job = job_of(document, now=now, catalog=catalog, origin=origin.current())
        if _asks_definition(job):
            result = self._store_template(job)
        else:
            result = _result(job, self._intake.insert(job))
        if isinstance(result, Refusal):
            raise result
        return result

    def _submit_many(self, documents: Sequence[object], job_of: _JobOf) -> list[Job | Refusal]:
        now = self.repository.clock.now()
        catalog, by = self.catalog(documents), origin.current()
        results: list[Job | Refusal] = []
        for document in documents:
            try:
                results.append(job_of(document, now=now, catalog=catalog, origin=by))
            except InvalidJob as exc:
                results.append(exc)
        jobs = [each for each in results if isinstance(each, Job) and not _asks_definition(each)]
        outcomes = iter(self.repository.jobs.insert_each(jobs))
        for place, result in enumerate(results):
            if isinstance(result, Job):
                if _asks_definition(result):
                    results[place] = self._store_template(result)
                else:
                    results[place] = _result(result, next(outcomes))
        return results

    def _store_template(self, template: Job) -> Job | Refusal:
        stored = self.repository.uses.insert_template(template)
        if stored is None:
            return InvalidJob("definition", "names none of this tenant: it was deleted just now")
        if stored:
            return template
        # Tells a used key from one that only has the same id.
        return _result(template, self.repository.jobs.insert_each([template])[0])

    def catalog(self, documents: Sequence[object]) -> Catalog:
        """What these documents may refer to; the definitions that they name are read once."""
        names = {definition_named(document) for document in documents}
        definitions = self.repository.definitions.find_all([name for name in names if name])
        return Catalog(self.job_types, self.secrets, definitions)

    def get_schedule(self, job_id: ObjectId) -> Job | BrokenJob:
        """A one-time schedule.

        Raises:
            JobNotFound: nothing has this id, or what has it is no schedule.
        """
        job = self.repository.jobs.read(job_id)
        if isinstance(job, Job) and not job.is_schedule:
            raise JobNotFound(f"no schedule has the id {job_id}")
        return job

    def reschedule(
        self, job_id: ObjectId, document: object, *, by: Author = API_CLIENT
    ) -> Job | BrokenJob:
        """Give a pending schedule another time.

        Args:
            job_id: which.
            document: decoded JSON with `scheduledAt` alone.
            by: who does it.

        Raises:
            InvalidJob: the document breaks a rule.
            JobNotFound: no schedule has this id.
            WrongState: it is no longer pending.
        """
        due_at = due_at_from(document)
        self.get_schedule(job_id)
        return self._reschedule(job_id, due_at, by)

    def reschedule_job(
        self,
        job_id: ObjectId,
        due_at: datetime,
        *,
        seen: datetime | None = None,
        by: Author = API_CLIENT,
    ) -> Job | BrokenJob:
        """Give any pending job another time.

        Args:
            job_id: which.
            due_at: aware; what is less than a millisecond is cut off.
            seen: the time that it had when somebody decided this; None: whichever it has.
            by: who does it.

        Raises:
            InvalidJob: `due_at` is out of range.
            JobNotFound: no job has this id.
            VersionMismatch: somebody else has rescheduled it meanwhile.
            WrongState: it is not pending, or a template.
        """
        due_at = _checked_due(due_at)
        self._require_no_template(job_id, "rescheduled")
        return self._reschedule(job_id, due_at, by, seen)

    def _reschedule(
        self, job_id: ObjectId, due_at: datetime, by: Author, seen: datetime | None = None
    ) -> Job | BrokenJob:
        now = self.repository.clock.now()
        moved = self.repository.interventions.reschedule(
            job_id, due_at=due_at, now=now, seen=seen, by=by
        )
        return moved or self._refuse_stale(job_id, "rescheduled", "another time", seen)

    def run_job_now(self, job_id: ObjectId, *, by: Author = API_CLIENT) -> Job | BrokenJob:
        """Make a pending job due now; one that is overdue keeps its place.

        Raises:
            JobNotFound: no job has this id.
            WrongState: it is not pending, or a template.
        """
        self._require_no_template(job_id, "made due now: run it")
        now = self.repository.clock.now()
        moved = self.repository.interventions.hasten(job_id, now=now, by=by)
        return moved or self._refuse(job_id, "made due now")

    def change_priority(
        self,
        job_id: ObjectId,
        priority: int,
        *,
        seen: int | None = None,
        by: Author = API_CLIENT,
    ) -> Job | BrokenJob:
        """Let a pending job go before others of its type (higher), or after them.

        Args:
            job_id: which.
            priority: its new one.
            seen: the one that it had when somebody decided this; None: whichever it has.
            by: who does it.

        Raises:
            InvalidJob: `priority` is no integer of 32 bits.
            JobNotFound: no job has this id.
            VersionMismatch: somebody else has given it another one meanwhile.
            WrongState: it is not pending, or a template.
        """
        try:
            priority = FIELDS["priority"].check(priority)
        except ValueError as exc:
            raise InvalidJob("priority", str(exc)) from exc
        self._require_no_template(job_id, "given another priority: edit it")
        now = self.repository.clock.now()
        moved = self.repository.interventions.change_priority(
            job_id, priority, now=now, seen=seen, by=by
        )
        return moved or self._refuse_stale(
            job_id, "given another priority", "another priority", seen
        )

    def clone(
        self, job_id: ObjectId, *, due_at: datetime | None = None, by: Author = API_CLIENT
    ) -> Job:
        """Make a new job like another one, whatever became of that.

        Args:
            job_id: which to copy.
            due_at: as in `reschedule_job`; None: now.
            by: who does it.

        Returns:
            The new job.

        Raises:
            InvalidJob: `due_at` is out of range.
            JobNotFound: no job has this id.
            WrongState: it is a template.
        """
        job = self.repository.jobs.get(job_id)
        if job.is_template:
            raise WrongState(f"job {job_id} is a template and cannot be cloned", job.status)
        now = self.repository.clock.now()
        due_at = now if due_at is None else _checked_due(due_at)
        while True:
            mark = token_hex(_MARK_BYTES)
            clone = clone_of(job, mark, due_at=due_at, now=now, origin=origin.current())
            if self.repository.interventions.add(
                clone, made_from=job_id, action=Action.JOB_CLONE, by=by
            ):
                return clone

    def cancel_schedule(self, job_id: ObjectId, *, by: Author = API_CLIENT) -> Job | BrokenJob:
        """Stop a one-time schedule for good.

        Raises:
            JobNotFound: no schedule has this id.
            WrongState: it is over already.
        """
        self.get_schedule(job_id)
        return self.cancel(job_id, by=by)

    def cancel(self, job_id: ObjectId, *, by: Author = API_CLIENT) -> Job | BrokenJob:
        """Stop a job or template for good. Runs that a template has spawned go on.

        Raises:
            JobNotFound: no job has this id.
            WrongState: it is over already.
        """
        now = self.repository.clock.now()
        moved = self.repository.interventions.cancel(job_id, now=now, by=by)
        return moved or self._refuse(job_id, "cancelled")

    def redrive(self, job_id: ObjectId, *, by: Author = API_CLIENT) -> Job | BrokenJob:
        """Give a dead letter or a cancelled job all its attempts again.

        A job is due at once, a template at its next occurrence.

        Raises:
            JobNotFound: no job has this id.
            WrongState: it is neither, or its cron expression cannot be used.
        """
        job = self.repository.jobs.get(job_id)
        now = self.repository.clock.now()
        due_at = next_occurrence(job, now) if job.is_template else now
        moved = self.repository.interventions.redrive(job_id, due_at=due_at, now=now, by=by)
        return moved or self._refuse(job_id, "redriven")

    def discard(self, job_id: ObjectId, *, by: Author = API_CLIENT) -> Job | BrokenJob:
        """Have done with a dead letter. It can still be redriven.

        Raises:
            JobNotFound: no job has this id.
            WrongState: it is no dead letter.
        """
        now = self.repository.clock.now()
        moved = self.repository.interventions.discard(job_id, now=now, by=by)
        return moved or self._refuse(job_id, "discarded")

    def _require_no_template(self, job_id: ObjectId, verb: str) -> None:
        job = self.repository.jobs.read(job_id)
        if isinstance(job, Job) and job.is_template:
            raise WrongState(f"job {job_id} is a template and cannot be {verb}", job.status)

    def _refuse_stale(
        self, job_id: ObjectId, verb: str, change: str, seen: object | None
    ) -> NoReturn:
        job = self.repository.jobs.read(job_id)
        if seen is not None and isinstance(job, Job) and job.status is Status.PENDING:
            raise VersionMismatch(f"somebody else has given job {job_id} {change} meanwhile")
        self._refuse(job_id, verb)

    def _refuse(self, job_id: ObjectId, verb: str) -> NoReturn:
        job = self.repository.jobs.get(job_id)
        raise WrongState(f"job {job_id} is {job.status} and cannot be {verb}", job.status)


def _asks_definition(job: Job) -> bool:
    """Whether it needs its definition later too, so that this must not be deleted."""
    return job.is_template and job.definition is not None


def _checked_due(due_at: datetime) -> datetime:
    # By the one set of rules for what clients send.
    return due_at_from({"scheduledAt": due_at.isoformat()})


def _result(job: Job, outcome: Outcome) -> Job | Refusal:
    if outcome is True:
        return job
    return outcome or DuplicateKey(job.idempotency_key, str(job.id))


@cache
def default() -> Services:
    """The services on the store of the settings; one per process, made on first use.

    On first use, as a connection must not be shared with a forked process.
    """
    config = settings.CHRONOS
    return Services(
        Repository.connect(config.store),
        registry.known_types(),
        Secrets(config.delivery.encryption_keys),
    )
