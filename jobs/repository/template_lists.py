"""Lists of templates, with what became of their last runs."""

from __future__ import annotations

from collections.abc import Collection as AnyCollection
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bson import ObjectId
from pymongo.collection import Collection

from jobs.lifecycle import Status
from jobs.repository.documents import KIND, TEMPLATE
from jobs.repository.indexes import TEMPLATES, TEMPLATES_OF_TENANT
from jobs.repository.looks import Listed, Look, Place, holding
from jobs.repository.outages import outages_named

STRIP_LENGTH: Final = 20
"""Runs of a template that a list tells of."""
LOOKED_AT: Final = 10_000
"""Templates that one page looks at, at most: about 0.1 s."""
# Large, and not shown in a list.
_WITHOUT: Final = {"payload": 0, "delivery": 0, "overrides": 0}
_PAGE_MS: Final = 10_000
# The first that is there tells when a run ran.
_RAN: Final = ("finishedAt", "startedAt", "createdAt")


@dataclass(frozen=True, slots=True)
class RunMark:
    """What a list tells of one run. Somebody may have edited it by hand."""

    id: ObjectId
    status: str
    at: datetime | None
    """The occurrence, or when it was asked for."""
    ran_at: datetime | None
    """When it ended; began, or was made, where it has not."""


class TemplateListStore:
    """Pages of templates, and the last runs of those on a page."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._jobs = collection

    @outages_named()
    def page(
        self,
        tenants: AnyCollection[str] | None,
        *,
        limit: int,
        status: Status | None = None,
        job_type: str | None = None,
        definition: str | None = None,
        key: str | None = None,
        before: Place | None = None,
    ) -> Listed:
        """Templates, newest first, without payload and delivery.

        It looks at 10,000 templates at the most, however few of them have the text in their key.

        Args:
            tenants: only of these; None: of all.
            limit: at most so many.
            status, job_type, definition: only these; None: all.
            key: only with this text in their key, in whatever case.
            before: `next` of the page before; None: from the newest.
        """
        among = {
            "tenantId": None if tenants is None else {"$in": sorted(tenants)},
            "status": None if status is None else str(status),
            "jobType": job_type,
            "definition": definition,
        }
        look = Look(
            index=TEMPLATES if tenants is None else TEMPLATES_OF_TENANT,
            among={
                KIND: TEMPLATE,
                **{name: value for name, value in among.items() if value is not None},
            },
            by="createdAt",
            filters={"idempotencyKey": holding(key)} if key else {},
            most=LOOKED_AT,
            without=_WITHOUT,
        )
        return look.page(self._jobs, limit=limit, before=before)

    @outages_named()
    def last_runs(
        self, template_ids: Sequence[ObjectId], *, limit: int = STRIP_LENGTH
    ) -> dict[ObjectId, list[RunMark]]:
        """The last runs of these templates, newest first; empty lists are left out."""
        if not template_ids:
            return {}
        newest = [
            {"$sort": {"createdAt": -1, "_id": -1}},
            {"$limit": limit},
            {"$project": dict.fromkeys(("status", "occurrenceAt", *_RAN), 1)},
        ]
        runs = {
            "from": self._jobs.name,
            "localField": "_id",
            "foreignField": "templateId",
            "pipeline": [{"$match": {"templateId": {"$exists": True}}}, *newest],
            "as": "runs",
        }
        groups = self._jobs.aggregate(
            [
                {"$match": {"_id": {"$in": list(template_ids)}}},
                {"$project": {"_id": 1}},
                {"$lookup": runs},
            ],
            maxTimeMS=_PAGE_MS,
        )
        return {
            group["_id"]: [_mark(document) for document in group["runs"]]
            for group in groups
            if group["runs"]
        }

    @outages_named()
    def existing(self, job_ids: Sequence[ObjectId]) -> set[ObjectId]:
        """Which of these jobs there are."""
        found = self._jobs.find({"_id": {"$in": list(job_ids)}}, {"_id": 1})
        return {document["_id"] for document in found}


def _mark(document: dict[str, Any]) -> RunMark:
    at = document.get("occurrenceAt", document.get("createdAt"))
    ran = (document[name] for name in _RAN if isinstance(document.get(name), datetime))
    return RunMark(
        document["_id"],
        str(document.get("status")),
        at if isinstance(at, datetime) else None,
        next(ran, None),
    )
