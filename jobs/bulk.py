"""A bulk operation: one thing that somebody does to many dead letters at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from bson import ObjectId

from jobs import cron
from jobs.audit import Action, Author, Entry
from jobs.errors import InvalidCron
from jobs.lifecycle import Job

_NUMBERS: Final = frozenset({"total", "done", "skipped"})
NONE: Final = ""
"""Of a filter's field: only what lacks it."""


class Kind(StrEnum):
    """What is done to each dead letter."""

    REDRIVE = "redrive"
    DISCARD = "discard"


class State(StrEnum):
    """How far an operation is."""

    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Skip(StrEnum):
    """Why a dead letter was left as it was."""

    UNREADABLE = "unreadable"
    """Its document is no job; it would only come back."""
    NEVER_DUE = "never due"
    """A template whose expression can no longer be used."""
    REFUSED = "refused"
    """MongoDB does not take the changed document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which dead letters; None: whichever."""

    tenant_id: str | None = None
    job_type: str | None = None
    definition: str | None = None
    """NONE: those made without one."""
    error_group: str | None = None
    """NONE: those that are in none, as `manage.py migrate` has not seen them yet."""
    error_text: str | None = None
    """What the error holds, whatever its case."""
    since: datetime | None = None
    """Ended then or later."""
    until: datetime | None = None
    """Ended before."""

    def tenants_within(self, tenants: Collection[str] | None) -> tuple[str, ...] | None:
        """Whose dead letters these are, for somebody who may see those of `tenants` (None: all)."""
        if self.tenant_id is None:
            return None if tenants is None else tuple(sorted(tenants))
        return (self.tenant_id,) if tenants is None or self.tenant_id in tenants else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A bulk operation, as stored.

    It takes what had ended when it was started, the latest end first.
    """

    id: ObjectId
    kind: Kind
    filter: Filter
    tenants: tuple[str, ...] | None
    """Whose dead letters it takes; None: of all."""
    author: Author
    started_at: datetime
    state: State = State.WAITING
    total: int = 0
    """Dead letters that it was about when it started."""
    is_total_exact: bool = True
    """False: there were more, too many to count."""
    done: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    """How many were left as they were, by `Skip`."""
    place: tuple[datetime, ObjectId] | None = None
    """The dead letter that it has come to."""
    runner: str | None = None
    """The reaper that did the last part."""
    ended_at: datetime | None = None
    failure: str | None = None
    """A sentence, where it failed."""

    @property
    def is_over(self) -> bool:
        return self.state not in (State.WAITING, State.RUNNING)

    @property
    def left_alone(self) -> int:
        """How many it looked at and left as they were."""
        return sum(self.skipped.values())

    @property
    def gone(self) -> int:
        """How many somebody else had moved before it came to them; known when it is completed."""
        if self.state is not State.COMPLETED or not self.is_total_exact:
            return 0
        return max(0, self.total - self.done - self.left_alone)

    def entries(
        self,
        action: Action,
        at: datetime,
        by: Author,
        after: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> list[Entry]:
        """What the audit log says of the operation itself: one entry for each of its tenants."""
        tenants = ("",) if self.tenants is None else self.tenants
        if len(tenants) > 1:
            # Who sees one of them must not learn how much there is of the others.
            after = {name: value for name, value in after.items() if name not in _NUMBERS}
        return [
            Entry(
                at=at,
                author=by,
                action=action,
                tenant_id=tenant_id,
                targets=(str(self.id),),
                before=before or {},
                after=after,
                operation_id=str(self.id),
            )
            for tenant_id in tenants
        ]


def due_again(job: Job, now: datetime) -> datetime | None:
    """When a redriven job is due: at once, a template at its next occurrence; None: never."""
    if not job.is_template:
        return now
    try:
        return cron.parse(job.cron or "", job.timezone).next_after(now)
    except InvalidCron:
        return None
