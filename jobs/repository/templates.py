"""Cron templates: which are due, and their move to the next occurrence."""

from __future__ import annotations

import logging
from collections.abc import Collection as AnyCollection
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bson import ObjectId
from pymongo import UpdateOne
from pymongo.collection import Collection

from jobs.errors import UnreadableJob
from jobs.lifecycle import LIVE, Job, Status
from jobs.logs import events
from jobs.repository.documents import KIND, TEMPLATE, from_document
from jobs.repository.endings import Retention, dead_letter_change
from jobs.repository.indexes import LIVE_RUNS, TEMPLATES_DUE
from jobs.repository.outages import outages_named

logger = logging.getLogger(__name__)

_PENDING: Final[dict[str, Any]] = {"status": str(Status.PENDING), KIND: TEMPLATE}


@dataclass(frozen=True, slots=True)
class Advance:
    """A template's move to its next occurrence, with what was not run on the way."""

    template_id: ObjectId
    from_at: datetime
    to_at: datetime
    missed: int = 0
    skipped: int = 0


class TemplateStore:
    """Templates never run; the scheduler spawns their runs and moves them on."""

    def __init__(self, collection: Collection[dict[str, Any]], retention: Retention) -> None:
        self._jobs = collection
        self._retention = retention

    @outages_named()
    def due(self, *, now: datetime, limit: int) -> list[Job]:
        """Templates whose occurrence has come, the longest due first.

        One that cannot be read is dead-lettered here.
        """
        found = self._jobs.find(
            {**_PENDING, "scheduledAt": {"$lte": now}}, hint=TEMPLATES_DUE, batch_size=limit
        )
        templates = []
        for document in found.sort("scheduledAt", 1).limit(limit):
            try:
                templates.append(from_document(document))
            except UnreadableJob as exc:
                seen_at = document.get("updatedAt")
                self.dead_letter(document["_id"], reason=str(exc), now=now, seen_at=seen_at)
        return templates

    @outages_named()
    def next_due(self) -> datetime | None:
        """When the next template comes due; None without templates, or where that is unreadable."""
        document = self._jobs.find_one(
            {**_PENDING, "scheduledAt": {"$type": "date"}},
            {"_id": 0, "scheduledAt": 1},
            sort=[("scheduledAt", 1)],
            hint=TEMPLATES_DUE,
        )
        at = None if document is None else document["scheduledAt"]
        return at if isinstance(at, datetime) else None

    @outages_named()
    def with_live_runs(self, template_ids: AnyCollection[ObjectId]) -> set[ObjectId]:
        """Which of these templates have a run that is not over."""
        if not template_ids:
            return set()
        groups = self._jobs.aggregate(
            [
                {
                    "$match": {
                        "templateId": {"$in": list(template_ids), "$exists": True},
                        "status": {"$in": [str(status) for status in LIVE]},
                    }
                },
                {"$group": {"_id": "$templateId"}},
            ],
            hint=LIVE_RUNS,
        )
        return {group["_id"] for group in groups}

    @outages_named()
    def advance(self, moves: Sequence[Advance], *, now: datetime) -> int:
        """Move templates on, each from the occurrence that was fired.

        Returns:
            How many; the others were moved, paused or cancelled meanwhile.
        """
        if not moves:
            return 0
        statements = [
            UpdateOne(
                {**_PENDING, "_id": move.template_id, "scheduledAt": move.from_at},
                {
                    "$set": {"scheduledAt": move.to_at, "updatedAt": now},
                    "$inc": {"missed": move.missed, "skipped": move.skipped},
                },
            )
            for move in moves
        ]
        return self._jobs.bulk_write(statements, ordered=False).matched_count

    @outages_named()
    def dead_letter(
        self, template_id: ObjectId, *, reason: str, now: datetime, seen_at: object = None
    ) -> bool:
        """pending → dlq for a template that can no longer be fired.

        Args:
            template_id: which.
            reason: why, in words.
            now: aware UTC.
            seen_at: its `updatedAt` when that was found, so that one that somebody has mended
                meanwhile goes on; None: whenever.

        Returns:
            False: it was moved or changed meanwhile.
        """
        which = {**_PENDING, "_id": template_id}
        if seen_at is not None:
            which["updatedAt"] = seen_at
        moved = self._jobs.update_one(which, dead_letter_change(reason, self._retention, now))
        if not moved.modified_count:
            return False
        extra = events.TEMPLATE_DEAD(job_id=str(template_id), error=reason)
        logger.error("dead-lettered a template: %s", reason, extra=extra)
        return True
