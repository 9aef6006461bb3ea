"""What a job is and how it may move. START HERE.

A job is one document in MongoDB. Its `status` is the whole state machine; `MOVES` lists every step
it may take and who takes it. A *template* (a job with `cron`) never runs: it spawns jobs. Nothing
here does any I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final

from bson import ObjectId

DEFAULT_MAX_ATTEMPTS: Final = 3
HISTORY_LENGTH: Final = 20
"""Attempts kept in a job's `history`; older ones fall out."""
ERROR_LENGTH: Final = 10_000
"""Characters kept of an error text."""
MAX_TIMEOUT_SECONDS: Final = 30 * 86_400
"""Longest `timeoutSeconds`."""
SHARDS: Final = 256


class Status(StrEnum):
    """Where a job is."""

    PENDING = "pending"
    QUEUED = "queued"
    CLAIMED = "claimed"
    RUNNING = "running"
    COMPLETED = "completed"
    DLQ = "dlq"
    CANCELLED = "cancelled"
    PAUSED = "paused"


IN_FLIGHT: Final = (Status.QUEUED, Status.CLAIMED, Status.RUNNING)
LEASED: Final = (Status.CLAIMED, Status.RUNNING)
LIVE: Final = (Status.PENDING, *IN_FLIGHT)


class Actor(StrEnum):
    """Who makes a move."""

    SCHEDULER = "scheduler"
    EXECUTOR = "executor"
    REAPER = "reaper"
    PERSON = "person"


MOVES: Final[Mapping[tuple[Status, Status], frozenset[Actor]]] = {
    (Status.PENDING, Status.QUEUED): frozenset({Actor.SCHEDULER}),
    (Status.QUEUED, Status.CLAIMED): frozenset({Actor.EXECUTOR}),
    (Status.QUEUED, Status.RUNNING): frozenset({Actor.EXECUTOR}),
    (Status.CLAIMED, Status.RUNNING): frozenset({Actor.EXECUTOR}),
    (Status.RUNNING, Status.COMPLETED): frozenset({Actor.EXECUTOR}),
    (Status.RUNNING, Status.PENDING): frozenset({Actor.EXECUTOR, Actor.REAPER}),
    (Status.RUNNING, Status.DLQ): frozenset({Actor.EXECUTOR, Actor.REAPER}),
    (Status.CLAIMED, Status.PENDING): frozenset({Actor.EXECUTOR, Actor.REAPER}),
    (Status.QUEUED, Status.PENDING): frozenset({Actor.SCHEDULER, Actor.REAPER}),
    (Status.PENDING, Status.CANCELLED): frozenset({Actor.PERSON}),
    (Status.QUEUED, Status.CANCELLED): frozenset({Actor.PERSON}),
    (Status.CLAIMED, Status.CANCELLED): frozenset({Actor.PERSON}),
    (Status.RUNNING, Status.CANCELLED): frozenset({Actor.PERSON}),
    (Status.PAUSED, Status.CANCELLED): frozenset({Actor.PERSON}),
    (Status.DLQ, Status.PENDING): frozenset({Actor.PERSON}),
    (Status.CANCELLED, Status.PENDING): frozenset({Actor.PERSON}),
    (Status.DLQ, Status.CANCELLED): frozenset({Actor.PERSON}),
    (Status.PENDING, Status.PAUSED): frozenset({Actor.PERSON}),
    # The scheduler: at the end that the pause was given.
    (Status.PAUSED, Status.PENDING): frozenset({Actor.PERSON, Actor.SCHEDULER}),
    # A job that an executor cannot read.
    (Status.CLAIMED, Status.DLQ): frozenset({Actor.EXECUTOR}),
    # A template whose expression can no longer be parsed.
    (Status.PENDING, Status.DLQ): frozenset({Actor.SCHEDULER}),
}


class Outcome(StrEnum):
    """How one attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    """The executor disappeared; the reaper took the job back."""
    SNOOZED = "snoozed"
    HANDED_BACK = "handed_back"
    """Interrupted by an orderly shutdown; costs no attempt."""
    CANCELLED = "cancelled"
    """A person cancelled the job meanwhile. Only in the record of executions."""


class CatchUp(StrEnum):
    """What a template does about occurrences that were missed."""

    ONE = "one"
    ALL = "all"
    NONE = "none"


class Overlap(StrEnum):
    """Whether a template spawns a run while an earlier one is live."""

    ALLOW = "allow"
    SKIP = "skip"


def job_id_for(key: str) -> ObjectId:
    """The id of the job with this idempotency key.

    The first 12 bytes of BLAKE2b over the key: the key is unique without an index of its own, and a
    client knows the id before the answer arrives.
    """
    return ObjectId(blake2b(key.encode()).digest()[:12])


def shard_of(job_id: ObjectId) -> int:
    """The shard, 0 … 255: the last byte of the id."""
    return job_id.binary[-1]


@dataclass(frozen=True, slots=True)
class Response:
    """What the target of a delivery answered."""

    code: int
    """HTTP status."""
    excerpt: str
    """The beginning of the body, as text."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at running a job, as kept in `history`; the record of executions keeps more of it."""

    number: int
    executor: str
    started_at: datetime
    finished_at: datetime
    outcome: Outcome
    error: str | None = None
    error_class: str | None = None
    """Name of the exception."""
    response: Response | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """What an attempt's end makes of its job. Guarded by `claim_id` when it is written."""

    job_id: ObjectId
    claim_id: str
    status: Status
    attempts: int
    attempt: Attempt
    scheduled_at: datetime | None = None
    """When the next attempt is due; only for PENDING."""
    last_error: str | None = None
    result: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job or template, as stored. In MongoDB and in the API the names are these in camelCase.

    `payload`, `result`, `delivery` and `overrides` are JSON texts: they are stored as one opaque
    value and so round-trip unchanged whatever keys they hold (docs/decisions/0002).
    """

    id: ObjectId
    idempotency_key: str
    tenant_id: str
    job_type: str
    status: Status
    scheduled_at: datetime
    created_at: datetime
    updated_at: datetime
    payload: str | None = None
    priority: int = 0
    attempts: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    cron: str | None = None
    timezone: str | None = None
    catch_up: CatchUp | None = None
    overlap: Overlap | None = None
    missed: int | None = None
    """Template: occurrences that passed without a run."""
    skipped: int | None = None
    """Template: occurrences not run because an earlier run was live."""
    paused_reason: str | None = None
    paused_until: datetime | None = None
    """Template: when the scheduler resumes it; None: a person does."""
    paused_by: str | None = None
    paused_at: datetime | None = None
    template_id: ObjectId | None = None
    occurrence_at: datetime | None = None
    definition: str | None = None
    """Name of the definition that it was made from."""
    definition_version: int | None = None
    overrides: str | None = None
    """Template: what it says itself; the rest comes from the definition at each firing."""
    delivery: str | None = None
    """Where and how to deliver, secrets sealed (`jobs.delivery`)."""
    request_id: str | None = None
    """Of the request that made it."""
    traceparent: str | None = None
    """W3C Trace Context: the trace that its attempts are part of."""
    tags: tuple[str, ...] = ()
    retry: Mapping[str, Any] | None = None
    timeout_seconds: float | None = None
    queued_at: datetime | None = None
    claimed_by: str | None = None
    claimed_at: datetime | None = None
    claim_id: str | None = None
    lease_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    """When MongoDB deletes the finished job (RETENTION_*)."""
    last_error: str | None = None
    result: str | None = None
    history: tuple[Attempt, ...] = field(default=())

    @property
    def is_template(self) -> bool:
        return self.cron is not None

    @property
    def is_schedule(self) -> bool:
        """Whether somebody scheduled it once, by a definition."""
        return self.definition is not None and not self.is_template and self.template_id is None

    @property
    def ready_at(self) -> datetime:
        """Since when it could run: it was due, or was submitted, where that came later."""
        return max(self.scheduled_at, self.created_at)

    @property
    def attempts_begun(self) -> int:
        """Attempts that began and count: used up, under way, cut short, or the one that succeeded.

        `attempts`, of which `max_attempts` are allowed, holds only the failures among them.
        """
        is_under_way = self.status is Status.RUNNING
        # A dead letter that was discarded keeps the end of its last attempt, which is counted.
        is_cut_short = (
            self.status is Status.CANCELLED
            and self.started_at is not None
            and self.finished_at == self.updated_at
        )
        has_succeeded = self.status is Status.COMPLETED
        return self.attempts + (is_under_way or is_cut_short or has_succeeded)

    @property
    def bucket(self) -> datetime:
        """The minute that it is due in."""
        return self.scheduled_at.replace(second=0, microsecond=0)
