"""What people do to templates, and what ends a pause: each with its entry in the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from bson import ObjectId
from pymongo import ASCENDING
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from jobs.audit import API_CLIENT, Action, Author, Entry
from jobs.lifecycle import Job, Status
from jobs.repository.audit_log import AuditLog
from jobs.repository.audited import AuditedWrites, Deed, Document
from jobs.repository.documents import KIND, TEMPLATE, BrokenJob, read_document, to_document
from jobs.repository.indexes import PAUSES
from jobs.repository.interventions import NO_PAUSE
from jobs.repository.outages import outages_named
from jobs.repository.transactions import in_transaction
from jobs.repository.uses import UseStore

_DUPLICATE_KEY: Final = 11000
_PAUSED: Final = {"status": str(Status.PAUSED), KIND: TEMPLATE}
REVISED: Final = (
    *("scheduledAt", "cron", "timezone", "catchUp", "overlap", "payload", "priority"),
    *("maxAttempts", "tags", "retry", "timeoutSeconds", "delivery", "overrides"),
    "definitionVersion",
)
"""The fields that an edit may change."""


class TemplateChangeStore:
    """Create, edit, backfill, end a pause."""

    def __init__(self, collection: Collection[Document], log: AuditLog, uses: UseStore) -> None:
        self._jobs = collection
        self._audited = AuditedWrites(collection, log)
        self._log = log
        self._uses = uses

    def create(self, template: Job, *, by: Author = API_CLIENT) -> bool | None:
        """Store a template.

        Returns:
            False when its key, or its id, was used already; None: its definition is gone.
        """
        targets = (str(template.id),)
        deed = Deed(by=by, action=Action.TEMPLATE_CREATE, targets=targets, at=template.created_at)
        document = to_document(template)
        if template.definition is None:
            return self._audited.insert(deed, document)
        return self._uses.insert_template(
            template, also=lambda session: self._log.append([deed.entry(None, document)], session)
        )

    def edit(
        self, old: Job, new: Job, *, now: datetime, by: Author = API_CLIENT
    ) -> Job | BrokenJob | None:
        """Replace what a template says.

        Args:
            old: as it was read; anything that happened to it since then refuses this.
            new: as it is to be.
            now: aware UTC.
            by: who does it.
        """
        document = to_document(new)
        removed = {name: "" for name in REVISED if name not in document}
        update: dict[str, Any] = {
            "$set": {
                **{name: document[name] for name in REVISED if name in document},
                "updatedAt": now,
            }
        }
        if removed:
            update["$unset"] = removed
        changed = self._audited.change(
            Deed(by=by, action=Action.TEMPLATE_EDIT, targets=(str(old.id),), at=now),
            {
                "_id": old.id,
                KIND: TEMPLATE,
                "status": str(old.status),
                "updatedAt": old.updated_at,
                "scheduledAt": old.scheduled_at,
            },
            update,
        )
        return None if changed is None else read_document(changed)

    @outages_named()
    def backfill(
        self,
        template: Job,
        runs: Sequence[Job],
        *,
        details: Mapping[str, Any],
        now: datetime,
        by: Author = API_CLIENT,
    ) -> int:
        """Store runs of past occurrences; those that are there already stay as they are.

        Args:
            template: whose.
            runs: with the keys of their occurrences.
            details: for the audit log, beside the count.
            now: aware UTC.
            by: who does it.

        Returns:
            How many were stored.
        """
        by_id = {run.id: run for run in runs}

        def work(session: ClientSession) -> int:
            found = self._jobs.find({"_id": {"$in": list(by_id)}}, {"_id": 1}, session=session)
            there = {document["_id"] for document in found}
            fresh = [to_document(run) for job_id, run in by_id.items() if job_id not in there]
            if fresh:
                self._jobs.insert_many(fresh, session=session)
                entry = Entry(
                    at=now,
                    author=by,
                    action=Action.TEMPLATE_BACKFILL,
                    tenant_id=template.tenant_id,
                    targets=(str(template.id),),
                    after={**details, "runs": len(fresh)},
                )
                self._log.append([entry], session)
            return len(fresh)

        # Once more for each that the scheduler, or somebody else, spawns meanwhile.
        while True:
            try:
                return in_transaction(self._jobs, work)
            except BulkWriteError as exc:
                if any(error["code"] != _DUPLICATE_KEY for error in exc.details["writeErrors"]):
                    raise

    @outages_named()
    def ended_pauses(self, *, now: datetime, limit: int) -> list[Job | BrokenJob]:
        """Paused templates whose end has come, the longest ended first."""
        found = self._jobs.find({**_PAUSED, "pausedUntil": {"$lte": now}}, hint=PAUSES)
        return [
            read_document(document)
            for document in found.sort("pausedUntil", ASCENDING).limit(limit)
        ]

    @outages_named()
    def next_end(self) -> datetime | None:
        """When the next pause ends; None: none has an end, or one that can be read."""
        document = self._jobs.find_one(
            {**_PAUSED, "pausedUntil": {"$type": "date", "$exists": True}},
            {"_id": 0, "pausedUntil": 1},
            sort=[("pausedUntil", ASCENDING)],
            hint=PAUSES,
        )
        at = None if document is None else document["pausedUntil"]
        return at if isinstance(at, datetime) else None

    def end_pause(
        self,
        template_id: ObjectId,
        *,
        until: datetime,
        next_at: datetime,
        now: datetime,
        by: Author,
    ) -> bool:
        """paused → pending, as the pause has come to its end.

        Args:
            template_id: which.
            until: that end; with another one it is another pause.
            next_at: the occurrence that it goes on with.
            now: aware UTC.
            by: who does it.

        Returns:
            False: somebody resumed or cancelled it meanwhile.
        """
        moved = self._audited.change(
            Deed(by=by, action=Action.TEMPLATE_RESUME, targets=(str(template_id),), at=now),
            {**_PAUSED, "_id": template_id, "pausedUntil": until},
            {
                "$set": {"status": str(Status.PENDING), "scheduledAt": next_at, "updatedAt": now},
                "$unset": NO_PAUSE,
            },
        )
        return moved is not None
