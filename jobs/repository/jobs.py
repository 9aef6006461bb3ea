"""Storing jobs and reading them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from jobs.errors import JobNotFound, KeyCollision
from jobs.lifecycle import Job, Status
from jobs.repository.documents import (
    KIND,
    RUNNABLE,
    BrokenJob,
    from_document,
    read_document,
    to_document,
)
from jobs.repository.indexes import SCHEDULES
from jobs.repository.outages import outages_named
from jobs.repository.pages import newest_first

_DUPLICATE_KEY = 11000

Position = tuple[datetime, ObjectId]
"""A place in a list: an instant and the id of the entry before it."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list. `next` is where the next page begins; None: this is the last."""

    jobs: list[Job | BrokenJob]
    next: Position | None


class JobStore:
    """Insert, get, list."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._jobs = collection

    def insert(self, jobs: Sequence[Job]) -> list[bool]:
        """Store jobs in one round trip.

        Returns:
            For each job, in order: True when it was stored, False when its key was already used
            (also by an earlier job of the same call).

        Raises:
            KeyCollision: another key has this id; that job is not stored.
            StoreUnavailable: some may have been stored; repeat the call.
        """
        stored = []
        for outcome in self.insert_each(jobs):
            if isinstance(outcome, KeyCollision):
                raise outcome
            stored.append(outcome)
        return stored

    @outages_named()
    def insert_each(self, jobs: Sequence[Job]) -> list[bool | KeyCollision]:
        """Like `insert`, for jobs that have nothing to do with each other: a collision is the
        outcome of its job alone.
        """
        outcomes: list[bool | KeyCollision] = [True] * len(jobs)
        if not jobs:
            return outcomes
        try:
            self._jobs.insert_many([to_document(job) for job in jobs], ordered=False)
        except BulkWriteError as exc:
            errors = exc.details["writeErrors"]
            if any(error["code"] != _DUPLICATE_KEY for error in errors):
                raise
            refused = [error["index"] for error in errors]
            holders = self._keys([jobs[index].id for index in refused])
            for index in refused:
                outcomes[index] = _refusal(jobs[index], holders)
            if exc.details["writeConcernErrors"]:
                raise
        return outcomes

    def _keys(self, job_ids: Sequence[ObjectId]) -> dict[ObjectId, str | None]:
        found = self._jobs.find({"_id": {"$in": list(job_ids)}}, {"idempotencyKey": 1})
        return {document["_id"]: document.get("idempotencyKey") for document in found}

    @outages_named()
    def find(self, job_id: ObjectId) -> Job | None:
        """The job with this id, or None.

        Raises:
            UnreadableJob: its document breaks the rules of a job.
        """
        document = self._jobs.find_one({"_id": job_id})
        return None if document is None else from_document(document)

    def get(self, job_id: ObjectId) -> Job:
        """The job with this id.

        Raises:
            JobNotFound: there is none.
            UnreadableJob: see `find`.
        """
        job = self.find(job_id)
        if job is None:
            raise JobNotFound(f"no job has the id {job_id}")
        return job

    @outages_named()
    def read(self, job_id: ObjectId) -> Job | BrokenJob:
        """What is stored under this id, also where it breaks the rules of a job.

        Raises:
            JobNotFound: nothing.
        """
        document = self._jobs.find_one({"_id": job_id})
        if document is None:
            raise JobNotFound(f"no job has the id {job_id}")
        return read_document(document)

    def page(
        self,
        tenant_id: str,
        *,
        limit: int,
        status: Status | None = None,
        job_type: str | None = None,
        tag: str | None = None,
        template_id: ObjectId | None = None,
        before: Position | None = None,
    ) -> Page:
        """A tenant's jobs and templates, newest first.

        Documents that break the rules of a job are among them, unless they lack even the place in
        this order.

        Args:
            tenant_id: whose.
            limit: at most so many; fewer where their payloads and results are large.
            status, job_type, tag, template_id: only these; None: all.
            before: `next` of the page before; None: from the newest.
        """
        query = _query(
            tenantId=tenant_id, status=status, jobType=job_type, tags=tag, templateId=template_id
        )
        return self._page(query, "createdAt", limit, before)

    def schedules(
        self,
        tenant_id: str,
        *,
        limit: int,
        status: Status | None = None,
        definition: str | None = None,
        tag: str | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        before: Position | None = None,
    ) -> Page:
        """A tenant's one-time schedules, the latest due first.

        One that is retried or rescheduled changes its place in this order.

        Args:
            tenant_id: whose.
            limit: as in `page`.
            status, definition, tag: only these; None: all.
            due_from: inclusive, aware UTC; None: from the first.
            due_before: exclusive; None: to the last.
            before: as in `page`, with `scheduledAt` in the place of `createdAt`.
        """
        query = _query(tenantId=tenant_id, status=status, definition=definition, tags=tag)
        query |= {KIND: RUNNABLE, "templateId": {"$exists": False}}
        query.setdefault("definition", {"$exists": True})
        named = tuple(name for name in ("definition", "tags") if isinstance(query.get(name), str))
        index = next(name for name, by in SCHEDULES.items() if by == named[:1])
        bounds = {"$gte": due_from, "$lt": due_before}
        query["scheduledAt"] = {name: at for name, at in bounds.items() if at is not None}
        return self._page(query, "scheduledAt", limit, before, hint=index)

    @outages_named()
    def _page(
        self,
        query: dict[str, Any],
        order: str,
        limit: int,
        before: Position | None,
        *,
        hint: str | None = None,
    ) -> Page:
        found, following = newest_first(
            self._jobs,
            {**query, "_id": {"$type": "objectId"}},
            by=order,
            limit=limit,
            before=before,
            size=_size,
            hint=hint,
        )
        return Page([read_document(document) for document in found], following)


def _size(document: Mapping[str, Any]) -> int:
    return len(str(document.get("payload", ""))) + len(str(document.get("result", "")))


def _query(**filters: Any) -> dict[str, Any]:
    """The filters that are there."""
    return {
        name: str(value) if isinstance(value, Status) else value
        for name, value in filters.items()
        if value is not None
    }


def _refusal(job: Job, holders: Mapping[ObjectId, str | None]) -> bool | KeyCollision:
    """False where the job's own key holds its id, or held it until just now."""
    if holders.get(job.id, job.idempotency_key) == job.idempotency_key:
        return False
    return KeyCollision(
        f"idempotencyKey {job.idempotency_key!r} has the same id as another key,"
        f" {job.id}. Choose another key."
    )
