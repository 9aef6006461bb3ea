"""What people and clients may do to cron templates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NoReturn

from bson import ObjectId

from jobs import cron, origin
from jobs.audit import API_CLIENT, Action, Author
from jobs.definitions import refreshed
from jobs.errors import (
    DuplicateKey,
    InvalidCron,
    InvalidJob,
    KeyCollision,
    VersionMismatch,
    WrongState,
)
from jobs.instants import EARLIEST, format_instant
from jobs.lifecycle import Job, Status
from jobs.preview import Preview, preview
from jobs.repository import Repository
from jobs.repository.documents import BrokenJob
from jobs.spawn import spawn
from jobs.submission import Catalog, job_from, pause_from
from jobs.template_revision import REVISED, identity, revised, version_of

BACKFILL_LIMIT: Final = 1_000
"""Runs that one backfill makes, at most."""
BACKFILL_BYTES: Final = 16 << 20
"""Of all their payloads together, as in a bulk."""
_NOT_OVER: Final = (Status.PENDING, Status.PAUSED)
# A dead one is mended before it is redriven.
_EDITABLE: Final = (*_NOT_OVER, Status.DLQ)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Backfill:
    """The occurrences of a range, before they are run."""

    occurrences: Sequence[datetime]
    existing: int
    """Those that have a run already, and get no other."""

    @property
    def fresh(self) -> int:
        """Those that will be run."""
        return len(self.occurrences) - self.existing

    @property
    def last(self) -> datetime | None:
        return self.occurrences[-1] if self.occurrences else None


class TemplateServices:
    """The use cases on one repository. Safe to share between threads."""

    def __init__(
        self, repository: Repository, catalog: Callable[[Sequence[object]], Catalog]
    ) -> None:
        """
        Args:
            repository: where the templates are.
            catalog: tells what documents may refer to.
        """
        self._repository = repository
        self._catalog = catalog

    def create(self, document: object, *, by: Author = API_CLIENT) -> Job:
        """Store the template that a decoded JSON document asks for, and who did.

        Raises:
            InvalidJob: the document breaks a rule, or asks for no template.
            DuplicateKey: a job with this key exists.
            KeyCollision: a job with another key has its id.
        """
        now = self._repository.clock.now()
        if isinstance(document, dict) and "cron" not in document:
            raise InvalidJob("cron", "is required")
        catalog = self._catalog([document])
        template = job_from(document, now=now, catalog=catalog, origin=origin.current())
        stored = self._repository.template_changes.create(template, by=by)
        if stored is None:
            raise InvalidJob("definition", "names none of this tenant: it was deleted just now")
        if not stored:
            self._refuse_key(template)
        return template

    def preview(self, expression: str, timezone: str | None, *, count: int) -> Preview:
        """What an expression means, and its next `count` occurrences.

        Raises:
            InvalidCron: it cannot be used, or the zone. The text names the field.
        """
        return preview(expression, timezone, now=self._repository.clock.now(), count=count)

    def edit(
        self, template_id: ObjectId, document: object, *, version: str, by: Author = API_CLIENT
    ) -> Job | BrokenJob:
        """Change what a template says. Runs that it has spawned stay as they are.

        Args:
            template_id: which.
            document: decoded JSON, see `jobs.template_revision.revised`.
            version: what the editor saw, by `version_of`.
            by: who does it.

        Raises:
            InvalidJob: the document breaks a rule.
            JobNotFound: no job has this id.
            VersionMismatch: somebody else has edited it meanwhile.
            WrongState: it is no template, or cancelled.
        """
        # Once more for each time that it fires meanwhile.
        while True:
            template = self._template(template_id, "edited", _EDITABLE)
            if version_of(template) != version:
                raise VersionMismatch("somebody else has edited the template: read it again")
            now = self._repository.clock.now()
            new = revised(template, document, now=now, catalog=self._catalog([identity(template)]))
            if all(getattr(new, name) == getattr(template, name) for name in REVISED):
                return template
            changed = self._repository.template_changes.edit(template, new, now=now, by=by)
            if changed is not None:
                return changed

    def pause(
        self, template_id: ObjectId, document: object = None, *, by: Author = API_CLIENT
    ) -> Job | BrokenJob:
        """Stop a template from spawning runs.

        Args:
            template_id: which.
            document: decoded JSON with perhaps a `reason`, and `until` when.
            by: who does it.

        Raises:
            InvalidJob: the document breaks a rule.
            JobNotFound: no job has this id.
            WrongState: it is no template, or not pending.
        """
        now = self._repository.clock.now()
        pause = pause_from({} if document is None else document, now=now)
        moved = self._repository.interventions.pause(
            template_id, reason=pause.reason, until=pause.until, now=now, by=by
        )
        return moved or self._refuse(template_id, "paused")

    def resume(self, template_id: ObjectId, *, by: Author = API_CLIENT) -> Job | BrokenJob:
        """Let a paused template go on with its next occurrence; those in between are dropped.

        Raises:
            JobNotFound: no job has this id.
            WrongState: it is no template, or not paused, or its expression cannot be used.
        """
        template = self._template(template_id, "resumed")
        now = self._repository.clock.now()
        next_at = next_occurrence(template, now)
        moved = self._repository.interventions.resume(template_id, next_at=next_at, now=now, by=by)
        return moved or self._refuse(template_id, "resumed")

    def run_now(self, template_id: ObjectId, *, by: Author = API_CLIENT) -> Job:
        """Spawn a run of a template, apart from its occurrences.

        Returns:
            The run. Repeating the call spawns another.

        Raises:
            JobNotFound: no job has this id.
            WrongState: it is no template, or neither pending nor paused.
        """
        template = self._refreshed(self._template(template_id, "run", _NOT_OVER))
        now = self._repository.clock.now()
        # A part of a millisecond, which no occurrence has, so that this run never takes an
        # occurrence's key; counted up when two people ask within one millisecond.
        at = now
        while True:
            at += _MICROSECOND
            run = replace(spawn(template, at, now, None, origin.current()), scheduled_at=now)
            if self._repository.interventions.add(
                run, made_from=template_id, action=Action.TEMPLATE_RUN, by=by
            ):
                return run

    def plan_backfill(self, template_id: ObjectId, *, start: datetime, end: datetime) -> Backfill:
        """What `backfill` would run.

        Args:
            template_id: which.
            start: aware, inclusive.
            end: aware, exclusive, not in the future.

        Raises:
            InvalidJob: the range cannot be used, or holds too much: the text says how far it may
                go.
            JobNotFound: no job has this id.
            WrongState: it is no template, or neither pending nor paused, or its expression cannot
                be used.
        """
        template = self._template(template_id, "backfilled", _NOT_OVER)
        _, runs = self._backfill_runs(template, start, end)
        existing = self._repository.template_lists.existing([run.id for run in runs])
        return Backfill([run.occurrence_at or run.scheduled_at for run in runs], len(existing))

    def backfill(
        self, template_id: ObjectId, *, start: datetime, end: datetime, by: Author = API_CLIENT
    ) -> int:
        """Run the occurrences of a range that have no run. They are due at once.

        Each has its occurrence's key, so it is run once however often this is called.

        Returns:
            How many are run.

        Raises:
            As `plan_backfill` does.
        """
        template = self._template(template_id, "backfilled", _NOT_OVER)
        now, runs = self._backfill_runs(template, start, end)
        details = {"from": format_instant(start), "to": format_instant(end)}
        return self._repository.template_changes.backfill(
            template, runs, details=details, now=now, by=by
        )

    def _backfill_runs(
        self, template: Job, start: datetime, end: datetime
    ) -> tuple[datetime, list[Job]]:
        template = self._refreshed(template)
        now = self._repository.clock.now()
        if start < EARLIEST:
            raise InvalidJob("from", "must not be before 1970")
        if end <= start:
            raise InvalidJob("to", "must be later than from")
        if end > now:
            raise InvalidJob("to", "must not be in the future")
        try:
            schedule = cron.parse(template.cron or "", template.timezone)
        except InvalidCron as exc:
            problem = f"job {template.id} cannot be backfilled: {exc}"
            raise WrongState(problem, template.status) from exc
        size = len((template.payload or "").encode(errors="surrogatepass"))
        most = max(1, min(BACKFILL_LIMIT, BACKFILL_BYTES // max(size, 1)))
        found = schedule.occurrences(start - _MICROSECOND, end - _MICROSECOND, most + 1)
        if len(found) > most:
            raise InvalidJob(
                "to",
                f"leaves more than {most:,} occurrences in the range, the most for one backfill:"
                f" it must not be later than {format_instant(found[most])}",
            )
        # Due now, so that they do not go before what waits with the same priority.
        by = origin.current()
        return now, [replace(spawn(template, at, now, at, by), scheduled_at=now) for at in found]

    def _refreshed(self, template: Job) -> Job:
        names = [(template.tenant_id, template.definition)] if template.definition else []
        try:
            return refreshed(template, self._repository.definitions.find_all(names))
        except InvalidJob as exc:
            raise WrongState(f"job {template.id} cannot be run: {exc}", template.status) from exc

    def _template(
        self, template_id: ObjectId, verb: str, allowed: Sequence[Status] = tuple(Status)
    ) -> Job:
        job = self._repository.jobs.get(template_id)
        if not job.is_template or job.status not in allowed:
            _refuse(job, verb)
        return job

    def _refuse(self, template_id: ObjectId, verb: str) -> NoReturn:
        _refuse(self._repository.jobs.get(template_id), verb)

    def _refuse_key(self, template: Job) -> NoReturn:
        holder = self._repository.jobs.find(template.id)
        if holder is None or holder.idempotency_key == template.idempotency_key:
            raise DuplicateKey(template.idempotency_key, str(template.id))
        raise KeyCollision(
            f"idempotencyKey {template.idempotency_key!r} has the same id as another key:"
            " choose another key"
        )


def next_occurrence(template: Job, now: datetime) -> datetime:
    """When a template fires next.

    Raises:
        WrongState: its expression cannot be used.
    """
    try:
        return cron.parse(template.cron or "", template.timezone).next_after(now)
    except InvalidCron as exc:
        raise WrongState(f"job {template.id} cannot go on: {exc}", template.status) from exc


def _refuse(job: Job, verb: str) -> NoReturn:
    if not job.is_template:
        raise WrongState(f"job {job.id} is no template and cannot be {verb}", job.status)
    raise WrongState(f"job {job.id} is {job.status} and cannot be {verb}", job.status)
