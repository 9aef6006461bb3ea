"""Jobs for people: by status and whatever else, in pages that always take milliseconds."""

from __future__ import annotations

import re
from collections.abc import Collection as AnyCollection
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from bson import ObjectId
from pymongo.collection import Collection

from jobs.lifecycle import IN_FLIGHT, LEASED, Job, Status, job_id_for
from jobs.repository.documents import KIND, RUNNABLE, TEMPLATE, BrokenJob, read_document
from jobs.repository.indexes import (
    CANCELLED,
    CANCELLED_OF_TENANT,
    DEAD_LETTERS,
    DEAD_LETTERS_OF_TENANT,
    DISPATCH,
    IN_FLIGHT_INDEX,
    NEWEST,
    RETRYING,
    RETRYING_OF_TENANT,
    TEMPLATE_RUNS,
    TENANT_LIST,
)
from jobs.repository.looks import Listed, Look, Place, holding
from jobs.repository.outages import outages_named

LOOKED_AT: Final = 10_000
"""Jobs that one page looks at, at most: about 0.1 s."""
COUNTED: Final = 1_000
"""What is shown of a count, at most; it stops one later."""
_LARGE: Final = dict.fromkeys(("payload", "result", "delivery", "overrides", "history"), False)
_ID_TEXT: Final = re.compile("[0-9a-fA-F]{24}")


class Tab(StrEnum):
    """Which jobs: by status, as people think of it."""

    ALL = "all"
    PENDING = "pending"
    RETRYING = "retrying"
    """Pending, after an attempt that failed."""
    QUEUED = "queued"
    RUNNING = "running"
    """Claimed or running."""
    COMPLETED = "completed"
    DEAD = "dlq"
    CANCELLED = "cancelled"


_PENDING: Final = {"status": str(Status.PENDING), KIND: RUNNABLE}
_WHICH: Final[Mapping[Tab, Mapping[str, Any]]] = {
    # Documents that lack their kind are jobs that somebody broke.
    Tab.ALL: {KIND: {"$ne": TEMPLATE}},
    Tab.PENDING: _PENDING,
    Tab.RETRYING: {**_PENDING, "attempts": {"$gt": 0}},
    Tab.QUEUED: {"status": str(Status.QUEUED)},
    Tab.RUNNING: {"status": {"$in": [str(status) for status in LEASED]}},
    Tab.COMPLETED: {"status": str(Status.COMPLETED)},
    Tab.DEAD: {"status": str(Status.DLQ), KIND: {"$ne": TEMPLATE}},
    Tab.CANCELLED: {"status": str(Status.CANCELLED), KIND: {"$ne": TEMPLATE}},
}
_IN_MEMORY: Final = (Tab.QUEUED, Tab.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a list is about; None: whatever."""

    tab: Tab = Tab.ALL
    tenant_id: str | None = None
    job_type: str | None = None
    definition: str | None = None
    tag: str | None = None
    template_id: ObjectId | None = None
    error_text: str | None = None
    """Somewhere in the last error, in capitals or not."""
    since: datetime | None = None
    """Created then or later; dead letters: ended."""
    until: datetime | None = None
    """Before."""


class JobLists:
    """Pages, counts and the search for one job."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._jobs = collection

    @outages_named()
    def page(
        self,
        wanted: Wanted,
        tenants: AnyCollection[str] | None,
        *,
        limit: int,
        before: Place | None = None,
    ) -> Listed:
        """One page, the newest first; dead letters by their end.

        It looks at 10,000 jobs at the most, however few of them are wanted: then it says how far
        it came, and the next page goes on from there.

        Args:
            wanted: which jobs.
            tenants: only of these; None: of all.
            limit: at most so many.
            before: where the page before ended; None: from the newest.
        """
        if wanted.tenant_id is not None:
            sees = tenants is None or wanted.tenant_id in tenants
            tenants = (wanted.tenant_id,) if sees else ()
        if tenants is not None and not tenants:
            return Listed([], None, None)
        look = Look(
            index=_index_for(wanted, tenants),
            among=_among(wanted, tenants),
            by="finishedAt"
            if wanted.tab is Tab.DEAD and wanted.template_id is None
            else "createdAt",
            filters=_filters(wanted, tenants),
            most=LOOKED_AT,
            without=_LARGE,
            since=wanted.since,
            until=wanted.until,
        )
        return look.page(self._jobs, limit=limit, before=before)

    @outages_named()
    def search(self, text: str, tenants: AnyCollection[str] | None) -> list[Job | BrokenJob]:
        """The job or template with this idempotency key, or this id.

        Args:
            text: either.
            tenants: as in `page`.
        """
        ids = [job_id_for(text)] if text.isprintable() else []
        if _ID_TEXT.fullmatch(text):
            ids.append(ObjectId(text))
        query: dict[str, Any] = {"_id": {"$in": ids}}
        if tenants is not None:
            query["tenantId"] = {"$in": sorted(tenants)}
        found = [read_document(document) for document in self._jobs.find(query, _LARGE)]
        # Another key may have the id that this text would have.
        return [
            each
            for each in found
            if isinstance(each, BrokenJob)
            or each.idempotency_key == text
            or str(each.id) == text.lower()
        ]

    @outages_named()
    def counts(self, tenants: AnyCollection[str] | None) -> dict[Tab, int]:
        """How many there are, of what an index counts: each up to 1,001.

        Pending jobs have no index by tenant, and are counted only over all of them; completed
        jobs have none at all. All jobs are left out where too many templates stand before them.
        """
        whose: dict[str, Any] = {}
        if tenants is not None:
            whose["tenantId"] = {"$in": sorted(tenants)}
        dead, retrying, cancelled = DEAD_LETTERS, RETRYING, CANCELLED
        if tenants is not None:
            dead, retrying = DEAD_LETTERS_OF_TENANT, RETRYING_OF_TENANT
            cancelled = CANCELLED_OF_TENANT
        counts = {
            Tab.RETRYING: self._count({**_WHICH[Tab.RETRYING], **whose}, retrying),
            Tab.DEAD: self._count({"status": str(Status.DLQ)} | whose, dead),
            Tab.CANCELLED: self._count({"status": str(Status.CANCELLED)} | whose, cancelled),
            **self._in_flight(whose),
        }
        if tenants is None:
            counts[Tab.PENDING] = self._count(_PENDING, DISPATCH)
        if (everything := self._all(whose)) is not None:
            counts[Tab.ALL] = everything
        return counts

    def _all(self, whose: Mapping[str, Any]) -> int | None:
        """Jobs, up to 1,001; None: of the newest documents most are templates, and there are more.

        Only the documents tell a template, so no more than twice as many are looked at.
        """
        index, most = TENANT_LIST if whose else NEWEST, 2 * (COUNTED + 1)
        stages: list[Mapping[str, Any]] = [
            {"$match": whose},
            {"$limit": most},
            {"$match": _WHICH[Tab.ALL]},
            {"$count": "jobs"},
        ]
        found: int = next(self._jobs.aggregate(stages, hint=index), {"jobs": 0})["jobs"]
        if found <= COUNTED:
            # Read from the index alone.
            stored = self._jobs.count_documents(whose, hint=index, limit=most + 1)
            return None if stored > most else found
        return COUNTED + 1

    def _count(self, query: Mapping[str, Any], hint: str) -> int:
        return self._jobs.count_documents(query, hint=hint, limit=COUNTED + 1)

    def _in_flight(self, whose: Mapping[str, Any]) -> dict[Tab, int]:
        groups = self._jobs.aggregate(
            [
                {"$match": {"status": {"$in": [str(status) for status in IN_FLIGHT]}, **whose}},
                {"$limit": LOOKED_AT},
                {"$group": {"_id": "$status", "count": {"$sum": 1}}},
            ],
            hint=IN_FLIGHT_INDEX,
        )
        by_status = {group["_id"]: group["count"] for group in groups}
        return {
            Tab.QUEUED: min(by_status.get(str(Status.QUEUED), 0), COUNTED + 1),
            Tab.RUNNING: min(sum(by_status.get(str(each), 0) for each in LEASED), COUNTED + 1),
        }


def _among(wanted: Wanted, tenants: AnyCollection[str] | None) -> dict[str, Any]:
    """What the index finds."""
    if wanted.template_id is not None:
        # The runs of a template are in an index without their tenant and status.
        return {"templateId": wanted.template_id}
    query: dict[str, Any] = {} if tenants is None else {"tenantId": _one_of(tenants)}
    # What a partial index holds has to be said for it to be used.
    if wanted.tab in (Tab.RETRYING, Tab.DEAD, Tab.CANCELLED, *_IN_MEMORY):
        query |= {name: each for name, each in _WHICH[wanted.tab].items() if name != KIND}
    if wanted.tab is Tab.RETRYING:
        query[KIND] = RUNNABLE
    return query


def _index_for(wanted: Wanted, tenants: AnyCollection[str] | None) -> str:
    if wanted.template_id is not None:
        return TEMPLATE_RUNS
    match wanted.tab:
        case Tab.QUEUED | Tab.RUNNING:
            # No more than executors can take, and so sorted in memory.
            return IN_FLIGHT_INDEX
        case Tab.DEAD:
            return DEAD_LETTERS if tenants is None else DEAD_LETTERS_OF_TENANT
        case Tab.RETRYING:
            return RETRYING if tenants is None else RETRYING_OF_TENANT
        case Tab.CANCELLED:
            return CANCELLED if tenants is None else CANCELLED_OF_TENANT
    return NEWEST if tenants is None else TENANT_LIST


def _one_of(tenants: AnyCollection[str]) -> str | dict[str, Sequence[str]]:
    names = sorted(tenants)
    return names[0] if len(names) == 1 else {"$in": names}


def _filters(wanted: Wanted, tenants: AnyCollection[str] | None) -> dict[str, Any]:
    """What is looked for among those."""
    fields = {"jobType": wanted.job_type, "definition": wanted.definition, "tags": wanted.tag}
    query: dict[str, Any] = {
        **_WHICH[wanted.tab],
        **{name: value for name, value in fields.items() if value is not None},
    }
    if tenants is not None:
        query["tenantId"] = _one_of(tenants)
    if wanted.error_text is not None:
        query["lastError"] = holding(wanted.error_text)
    return query
