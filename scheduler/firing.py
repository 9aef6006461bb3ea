"""Fires cron templates: each due occurrence becomes a run, once."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from jobs import cron
from jobs.definitions import refreshed
from jobs.errors import InvalidCron, InvalidJob, StoreUnavailable
from jobs.lifecycle import CatchUp, Job, Overlap
from jobs.logs import events
from jobs.origin import Origin
from jobs.repository import Repository
from jobs.repository.templates import Advance
from jobs.spawn import spawn
from jobs.tracing import spans
from scheduler.metrics import (
    CRON_DUPLICATE,
    CRON_INVALID,
    CRON_MISSED,
    CRON_SKIPPED,
    CRON_SPAWNED,
)

logger = logging.getLogger(__name__)

CATCH_UP_LIMIT: Final = 100
"""Occurrences that `catchUp: all` makes up for in one step; the rest follows in the next steps."""
COUNT_LIMIT: Final = 10_000
"""Missed occurrences are counted up to here per firing."""
_STEP_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of one due template."""

    fired: Sequence[datetime]
    next_at: datetime
    missed: int = 0


def plan(template: Job, *, now: datetime, grace: timedelta) -> Plan:
    """Decide which due occurrences of a template are run.

    The template's `scheduledAt` is the first one that was not dealt with. It, not the clock, says
    which one a gap is fired for: whoever decides again later comes to the same key.

    Args:
        template: due; `scheduled_at` is not after `now`.
        now: aware UTC.
        grace: with `catchUp: none`, how late an occurrence may be and still run.

    Raises:
        InvalidCron: the expression or zone can no longer be parsed.
    """
    schedule = cron.parse(template.cron or "", template.timezone)
    first = template.scheduled_at
    match template.catch_up:
        case CatchUp.ALL:
            later = schedule.occurrences(first, now, CATCH_UP_LIMIT - 1)
            fired = [first, *later]
            return Plan(fired, schedule.next_after(fired[-1]))
        case CatchUp.NONE:
            later = schedule.occurrences(first, now, COUNT_LIMIT)
            last = later[-1] if later else first
            next_at = schedule.next_after(max(last, now))
            on_time = now - last <= grace
            return Plan([last] if on_time else [], next_at, len(later) + (not on_time))
        case _:
            later = schedule.occurrences(first, now, COUNT_LIMIT)
            return Plan([first], schedule.next_after(now), len(later))


class Firing:
    """Spawns the runs of due templates and moves the templates on."""

    def __init__(self, repository: Repository, *, batch: int, grace: timedelta) -> None:
        """A firing step.

        Args:
            repository: where the templates are.
            batch: templates in one step, at most.
            grace: see `plan`.
        """
        self._repository = repository
        self._batch = batch
        self._grace = grace

    def step(self, now: datetime) -> bool:
        """Fire what is due. True: more is due.

        First the runs, then the templates: a crash in between repeats the runs, whose keys exist.
        """
        due = self._repository.templates.due(now=now, limit=self._batch)
        if not due:
            return False
        plans, is_cut = self._plans(self._refreshed(due, now), now)
        busy = self._repository.templates.with_live_runs(
            [template.id for template, _ in plans if template.overlap is Overlap.SKIP]
        )
        runs: list[Job] = []
        moves: list[Advance] = []
        for template, made in plans:
            fired = list(made.fired)
            if template.overlap is Overlap.SKIP:
                # At most one live run: of several occurrences made up for, the first.
                fired = [] if template.id in busy else fired[:1]
            skipped = len(made.fired) - len(fired)
            runs += [
                spawn(template, at, now, at, Origin(traceparent=spans.fired(template)))
                for at in fired
            ]
            moves.append(
                Advance(template.id, template.scheduled_at, made.next_at, made.missed, skipped)
            )
        spawned = self._spawn(runs, now)
        self._repository.templates.advance(moves, now=now)
        CRON_SPAWNED.inc(sum(spawned))
        CRON_DUPLICATE.inc(len(spawned) - sum(spawned))
        CRON_MISSED.inc(sum(move.missed for move in moves))
        CRON_SKIPPED.inc(sum(move.skipped for move in moves))
        is_cut = is_cut or len(due) == self._batch
        return is_cut or any(move.to_at <= now for move in moves)

    def next_due(self, now: datetime) -> datetime | None:
        """When the next template comes due."""
        return self._repository.templates.next_due()

    def _refreshed(self, templates: Sequence[Job], now: datetime) -> list[Job]:
        """The templates as their definitions now have them, without those that have none left."""
        names = {(each.tenant_id, each.definition) for each in templates if each.definition}
        definitions = self._repository.definitions.find_all(names)
        result = []
        for template in templates:
            try:
                result.append(refreshed(template, definitions))
            except InvalidJob as exc:
                self._dead_letter(template, exc, now)
        return result

    def _plans(
        self, templates: Sequence[Job], now: datetime
    ) -> tuple[list[tuple[Job, Plan]], bool]:
        """What becomes of these templates; and whether some are left to the next step.

        After an outage, counting the missed occurrences of many templates takes long, and making up
        for them makes many runs. Jobs are to be dispatched in between.
        """
        plans = []
        spawned = 0
        give_up_at = time.monotonic() + _STEP_SECONDS
        for place, template in enumerate(templates, start=1):
            if (made := self._plan(template, now)) is not None:
                plans.append((template, made))
                spawned += len(made.fired)
            if spawned > self._batch or time.monotonic() > give_up_at:
                return plans, place < len(templates)
        return plans, False

    def _spawn(self, runs: Sequence[Job], now: datetime) -> list[bool]:
        """Insert the runs; which are new."""
        try:
            return self._repository.jobs.insert(runs)
        except StoreUnavailable:
            raise
        except Exception:
            logger.exception(
                "%d runs could not be stored together, trying one by one",
                len(runs),
                extra=events.RUNS_UNSTORED(count=len(runs)),
            )
        return [self._spawn_alone(run, now) for run in runs]

    def _spawn_alone(self, run: Job, now: datetime) -> bool:
        try:
            return self._repository.jobs.insert([run])[0]
        except StoreUnavailable:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever MongoDB has against it
            # Only by an edit of the template, to a size that leaves no room for the run's key.
            reason = f"a run could not be stored: {exc}"
            if run.template_id is not None:
                self._repository.templates.dead_letter(run.template_id, reason=reason, now=now)
            CRON_INVALID.inc()
            return False

    def _dead_letter(self, template: Job, problem: InvalidJob, now: datetime) -> None:
        if self._repository.templates.dead_letter(
            template.id, reason=str(problem), now=now, seen_at=template.updated_at
        ):
            CRON_INVALID.inc()

    def _plan(self, template: Job, now: datetime) -> Plan | None:
        try:
            return plan(template, now=now, grace=self._grace)
        except InvalidCron as exc:
            self._dead_letter(template, exc, now)
            return None
