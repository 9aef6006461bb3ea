"""Bulk operations: started, cancelled, and done part by part.

Nobody holds an operation. A part is one transaction over the dead letters that it moves, their
entry in the audit log and the operation's own document, so of two processes that try the same part
one does it, and a process that dies leaves none half done (docs/decisions/0027).
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection as AnyCollection
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from bson import ObjectId
from pymongo import ASCENDING, ReturnDocument, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from jobs.audit import Action, Author, Entry, Via
from jobs.bulk import Kind, Operation, Skip, State, due_again
from jobs.exposure import exposed_value
from jobs.lifecycle import Job, Status
from jobs.logs import events
from jobs.repository.audit_log import AuditLog
from jobs.repository.bulk_documents import (
    filter_document,
    operation_document,
    operation_from,
    readable,
)
from jobs.repository.dead_letter_lists import WITHOUT_PAYLOAD, index_for, query_for
from jobs.repository.documents import read_document
from jobs.repository.endings import discard_change, redrive_change
from jobs.repository.indexes import TURN
from jobs.repository.looks import Place
from jobs.repository.outages import is_outage, outages_named
from jobs.repository.pages import newest_first
from jobs.repository.transactions import in_transaction

logger = logging.getLogger(__name__)

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_ACTIVE: Final = {"$in": [str(State.WAITING), str(State.RUNNING)]}
_ACTIONS: Final = {Kind.REDRIVE: Action.JOB_REDRIVE, Kind.DISCARD: Action.JOB_DISCARD}
_STATUSES: Final = {Kind.REDRIVE: Status.PENDING, Kind.DISCARD: Status.CANCELLED}


@dataclass(frozen=True, slots=True)
class Turn:
    """An operation, and when its next part may be done."""

    operation_id: ObjectId
    at: datetime


@dataclass(slots=True)
class _Part:
    """What is to be done to some dead letters."""

    moves: list[UpdateOne] = field(default_factory=list)
    moved: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Their ids, by tenant."""
    skipped: Counter[str] = field(default_factory=Counter)


class BulkStore:
    """Start, find, list, cancel; and the parts."""

    def __init__(
        self,
        operations: Collection[dict[str, Any]],
        jobs: Collection[dict[str, Any]],
        log: AuditLog,
    ) -> None:
        self._operations = operations
        self._jobs = jobs
        self._log = log

    @outages_named()
    def start(self, operation: Operation) -> None:
        """Store an operation; from then on it is done."""
        said = {
            "kind": str(operation.kind),
            "filter": exposed_value(filter_document(operation.filter)),
            "total": operation.total,
        }
        document = operation_document(operation)
        entries = operation.entries(Action.BULK_START, operation.started_at, operation.author, said)

        def insert(session: ClientSession) -> None:
            self._operations.insert_one(document, session=session)
            self._log.append(entries, session)

        in_transaction(self._operations, insert)

    @outages_named()
    def find(self, operation_id: ObjectId, tenants: AnyCollection[str] | None) -> Operation | None:
        """An operation; None: there is none, or it is about others than `tenants` (None: all)."""
        document = self._operations.find_one({"_id": operation_id, **_within(tenants)})
        return None if document is None else readable(document)

    @outages_named()
    def page(
        self, tenants: AnyCollection[str] | None, *, limit: int, before: Place | None = None
    ) -> tuple[list[Operation], Place | None]:
        """Operations, the newest first, and where the next page begins.

        Those that cannot be read are left out.

        Args:
            tenants: only those about no others; None: all.
            limit: at most so many.
            before: where the page before ended; None: from the newest.
        """
        documents, rest = newest_first(
            self._operations,
            _within(tenants),
            by="startedAt",
            limit=limit,
            before=before,
            hint="newest",
        )
        return [each for each in map(readable, documents) if each is not None], rest

    @outages_named()
    def cancel(self, operation_id: ObjectId, *, by: Author, now: datetime) -> bool:
        """Stop an operation; what it has done stays. False: it was over already."""
        return self._end(operation_id, State.CANCELLED, Action.BULK_CANCEL, by, now)

    @outages_named()
    def fail(self, operation_id: ObjectId, reason: str, *, runner: str, now: datetime) -> bool:
        """Give an operation up. False: it was over already.

        Args:
            operation_id: which.
            reason: a sentence.
            runner: name of the process that says so.
            now: aware UTC.
        """
        by = Author(runner, Via.ROLE)
        return self._end(operation_id, State.FAILED, Action.BULK_END, by, now, failure=reason)

    def _end(
        self,
        operation_id: ObjectId,
        state: State,
        action: Action,
        by: Author,
        now: datetime,
        **said: str,
    ) -> bool:
        def work(session: ClientSession) -> bool:
            document = self._operations.find_one_and_update(
                {"_id": operation_id, "state": _ACTIVE},
                {
                    "$set": {"state": str(state), "endedAt": now, **said},
                    "$unset": {"turnAt": ""},
                },
                session=session,
            )
            if document is None:
                return False
            if (operation := readable(document)) is not None:
                was, outcome = {"state": str(operation.state)}, _outcome(operation, state)
                self._log.append(operation.entries(action, now, by, outcome, was), session)
            return True

        return in_transaction(self._operations, work)

    @outages_named()
    def next_turn(self) -> Turn | None:
        """The operation whose next part is the first to be done; None: nothing is to be done."""
        # Only an instant is compared with one: what was edited by hand holds nothing up.
        document = self._operations.find_one(
            {"turnAt": {"$lte": _NEVER}}, {"turnAt": 1}, sort=[("turnAt", ASCENDING)], hint=TURN
        )
        return None if document is None else Turn(document["_id"], document["turnAt"])

    @outages_named()
    def take_turn(
        self, operation_id: ObjectId, *, size: int, pause: timedelta, runner: str, now: datetime
    ) -> Operation | None:
        """Do the next part of an operation.

        Args:
            operation_id: which.
            size: dead letters in a part, at most.
            pause: time that each of those that are moved takes.
            runner: name of this process.
            now: aware UTC.

        Returns:
            The operation after it; None: it is over, or it is not its turn, as somebody else has
            done the part.
        """
        refused: set[ObjectId] = set()
        part = partial(self._take_turn, operation_id, size, pause, runner, now, refused)
        while True:
            try:
                return in_transaction(self._jobs, part)
            except BulkWriteError as exc:
                if is_outage(exc):
                    raise
                # The first that refuses undoes the transaction.
                [error] = exc.details["writeErrors"]
                refused.add(error["op"]["q"]["_id"])
                extra = events.JOB_IMMOVABLE(
                    job_id=str(error["op"]["q"]["_id"]), error=error["errmsg"]
                )
                logger.error("a dead letter cannot be moved: %s", error["errmsg"], extra=extra)

    def _take_turn(
        self,
        operation_id: ObjectId,
        size: int,
        pause: timedelta,
        runner: str,
        now: datetime,
        refused: AnyCollection[ObjectId],
        session: ClientSession,
    ) -> Operation | None:
        document = self._operations.find_one(
            {"_id": operation_id, "state": _ACTIVE, "turnAt": {"$lte": now}}, session=session
        )
        if document is None:
            return None
        operation = operation_from(document)
        letters, rest = newest_first(
            self._jobs,
            query_for(operation.filter, operation.tenants),
            by="finishedAt",
            limit=size,
            before=operation.place,
            hint=index_for(operation.tenants),
            projection=WITHOUT_PAYLOAD,
            session=session,
        )
        part = _part(operation.kind, letters, refused, now)
        if part.moves:
            self._jobs.bulk_write(part.moves, ordered=False, session=session)
        self._log.append(list(_entries(operation, part, now)), session)
        change: dict[str, Any] = {
            "$set": {"state": str(State.RUNNING), "runner": runner},
            "$inc": {
                "done": len(part.moves),
                **{f"skipped.{reason}": count for reason, count in part.skipped.items()},
            },
        }
        if rest is not None:
            change["$set"] |= {
                "place": {"at": rest[0], "id": rest[1]},
                "turnAt": now + pause * len(part.moves),
            }
        else:
            change["$set"] |= {"state": str(State.COMPLETED), "endedAt": now}
            change["$unset"] = {"turnAt": ""}
        changed = self._operations.find_one_and_update(
            {"_id": operation_id},
            change,
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        # Read in the same transaction just now.
        assert changed is not None  # noqa: S101
        after = operation_from(changed)
        if after.is_over:
            by = Author(runner, Via.ROLE)
            was, outcome = {"state": str(operation.state)}, _outcome(after, after.state)
            self._log.append(after.entries(Action.BULK_END, now, by, outcome, was), session)
        return after


def _part(
    kind: Kind,
    letters: Iterable[Mapping[str, Any]],
    refused: AnyCollection[ObjectId],
    now: datetime,
) -> _Part:
    part = _Part()
    for letter in letters:
        change = Skip.REFUSED if letter["_id"] in refused else _change(kind, letter, now)
        if isinstance(change, Skip):
            part.skipped[str(change)] += 1
        else:
            guard = {"_id": letter["_id"], "status": str(Status.DLQ)}
            part.moves.append(UpdateOne(guard, change))
            part.moved[str(letter.get("tenantId", ""))].append(str(letter["_id"]))
    return part


def _change(kind: Kind, letter: Mapping[str, Any], now: datetime) -> dict[str, Any] | Skip:
    if kind is Kind.DISCARD:
        return discard_change(now)
    job = read_document(letter)
    if not isinstance(job, Job):
        return Skip.UNREADABLE
    due_at = due_again(job, now)
    return Skip.NEVER_DUE if due_at is None else redrive_change(due_at=due_at, now=now)


def _entries(operation: Operation, part: _Part, now: datetime) -> Iterator[Entry]:
    for tenant_id, job_ids in part.moved.items():
        yield Entry(
            at=now,
            author=operation.author,
            action=_ACTIONS[operation.kind],
            tenant_id=tenant_id,
            targets=tuple(job_ids),
            before={"status": str(Status.DLQ)},
            after={"status": str(_STATUSES[operation.kind])},
            operation_id=str(operation.id),
        )


def _outcome(operation: Operation, state: State) -> dict[str, Any]:
    return {
        "state": str(state),
        "done": operation.done,
        "skipped": dict(operation.skipped),
    }


def _within(tenants: AnyCollection[str] | None) -> dict[str, Any]:
    """What finds the operations about no others than these tenants."""
    if tenants is None:
        return {}
    return {"tenants": {"$type": "array", "$not": {"$elemMatch": {"$nin": sorted(tenants)}}}}
