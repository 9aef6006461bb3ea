"""The record of attempts: one document each, in a collection beside the jobs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from bson import ObjectId
from pymongo import ReplaceOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from jobs.errors import UnreadableExecution
from jobs.executions import Execution
from jobs.lifecycle import Outcome
from jobs.logs import events
from jobs.repository.documents import attempt_document, attempt_from, check_kinds
from jobs.repository.indexes import EXECUTIONS_OF_DEFINITION, EXECUTIONS_OF_TEMPLATE, TENANT_LIST
from jobs.repository.outages import outages_named
from jobs.repository.pages import newest_first
from jobs.repository.records import belonging_to, insert_new

logger = logging.getLogger(__name__)

_KINDS: Final = {
    "_id": str,
    "jobId": ObjectId,
    "tenantId": str,
    "jobType": str,
    "templateId": ObjectId,
    "definition": str,
    "dueAt": datetime,
    "queuedAt": datetime,
    "claimedAt": datetime,
}

Place = tuple[datetime, str]
"""A place in a list: `startedAt` and id of the execution before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which executions a list is about; None: whichever."""

    tenant_id: str | None = None
    job_id: ObjectId | None = None
    template_id: ObjectId | None = None
    definition: str | None = None
    job_type: str | None = None
    outcome: Outcome | None = None
    since: datetime | None = None
    """Started then or later."""
    until: datetime | None = None
    """Started before."""


class ExecutionStore:
    """Record, find, list."""

    def __init__(self, collection: Collection[dict[str, Any]], retention: timedelta | None) -> None:
        self._executions = collection
        self._retention = retention

    @outages_named()
    def record(self, executions: Sequence[Execution]) -> None:
        """Store attempts of which nothing is recorded yet, in one round trip.

        To be called before the guarded write of their ends, so that a crash in between loses no
        record. What somebody else has recorded meanwhile, for taking the claim away, is left as it
        is (docs/decisions/0024).

        Raises:
            StoreUnavailable: repeat the call.
        """
        insert_new(self._executions, [self._document(execution) for execution in executions])

    def replace(self, executions: Sequence[Execution], session: ClientSession) -> None:
        """Store attempts, in the place of what is recorded of them.

        Args:
            executions: whose claims are taken away in the same transaction.
            session: of that transaction.
        """
        documents = [self._document(execution) for execution in executions]
        statements = [
            ReplaceOne({"_id": document["_id"]}, document, upsert=True) for document in documents
        ]
        if statements:
            self._executions.bulk_write(statements, ordered=False, session=session)

    @outages_named()
    def find(self, execution_id: str) -> Execution | None:
        """The attempt with this id, or None: there was none, or it has not ended.

        Raises:
            UnreadableExecution: its document breaks the rules.
        """
        document = self._executions.find_one({"_id": execution_id})
        return None if document is None else _execution(document)

    @outages_named()
    def page(
        self, wanted: Wanted, *, limit: int, before: Place | None = None
    ) -> tuple[list[Execution], Place | None]:
        """Attempts that have ended, newest first, without what their targets answered.

        Those that cannot be read are left out.

        Args:
            wanted: of a tenant or a job at least.
            limit: at most so many; fewer where their errors are large.
            before: where the page before ended; None: from the newest.

        Returns:
            The page, and where the next one begins; None: this is the last.
        """
        filters = {
            "_id": None if wanted.job_id is None else belonging_to(wanted.job_id),
            "tenantId": wanted.tenant_id,
            "templateId": wanted.template_id,
            "definition": wanted.definition,
            "jobType": wanted.job_type,
            "outcome": None if wanted.outcome is None else str(wanted.outcome),
        }
        query: dict[str, Any] = {
            name: value for name, value in filters.items() if value is not None
        }
        bounds = {"$gte": wanted.since, "$lt": wanted.until}
        query["startedAt"] = {name: at for name, at in bounds.items() if at is not None}
        documents, rest = newest_first(
            self._executions,
            query,
            by="startedAt",
            limit=limit,
            before=before,
            size=lambda document: len(str(document.get("error", ""))),
            hint=_index_for(wanted),
            projection={"responseExcerpt": False},
        )
        return list(_readable(documents)), rest

    def _document(self, execution: Execution) -> dict[str, Any]:
        attempt = execution.attempt
        document = {
            "_id": execution.id,
            "jobId": execution.job_id,
            "tenantId": execution.tenant_id,
            "jobType": execution.job_type,
            **attempt_document(attempt),
        }
        optional = {
            "templateId": execution.template_id,
            "definition": execution.definition,
            "dueAt": execution.due_at,
            "queuedAt": execution.queued_at,
            "claimedAt": execution.claimed_at,
        }
        document |= {name: value for name, value in optional.items() if value is not None}
        if attempt.response is not None:
            document["responseExcerpt"] = attempt.response.excerpt
        if self._retention is not None:
            document["expiresAt"] = attempt.finished_at + self._retention
        return document


def _index_for(wanted: Wanted) -> str:
    """The one that leaves the fewest to be looked at; the planner would have to try them."""
    if wanted.job_id is not None:
        return "_id_"
    if wanted.template_id is not None:
        return EXECUTIONS_OF_TEMPLATE
    if wanted.definition is not None:
        return EXECUTIONS_OF_DEFINITION
    return TENANT_LIST


def _execution(document: Mapping[str, Any]) -> Execution:
    try:
        check_kinds(document, _KINDS)
        return Execution(
            id=document["_id"],
            job_id=document["jobId"],
            tenant_id=document["tenantId"],
            job_type=document["jobType"],
            template_id=document.get("templateId"),
            definition=document.get("definition"),
            due_at=document.get("dueAt"),
            queued_at=document.get("queuedAt"),
            claimed_at=document.get("claimedAt"),
            attempt=attempt_from(document),
        )
    except KeyError as exc:
        problem = f"{exc.args[0]} is missing"
        raise UnreadableExecution(f"execution {document['_id']!r:.100}: {problem}") from exc
    except ValueError as exc:
        raise UnreadableExecution(f"execution {document['_id']!r:.100}: {exc}") from exc


def _readable(documents: Iterable[Mapping[str, Any]]) -> Iterator[Execution]:
    for document in documents:
        try:
            yield _execution(document)
        except UnreadableExecution as exc:
            logger.warning("left out of a list: %s", exc, extra=events.RECORD_UNREADABLE(error=exc))
