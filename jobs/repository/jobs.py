"""Storing jobs and reading them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from bson import ObjectId
from pymongo import DESCENDING
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from jobs.errors import JobNotFound, KeyCollision
from jobs.lifecycle import Job, Status
from jobs.repository.documents import BrokenJob, from_document, read_document, to_document
from jobs.repository.outages import outages_named

_DUPLICATE_KEY = 11000

Position = tuple[datetime, ObjectId]
"""A place in a list: `createdAt` and id of the job before it."""
_NEWEST: Final[Position] = (datetime.max.replace(tzinfo=UTC), ObjectId(b"\xff" * 12))
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list. `next` is where the next page begins; None: this is the last."""

    jobs: list[Job | BrokenJob]
    next: Position | None


class JobStore:
    """Insert, get, list."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._jobs = collection

    @outages_named()
    def insert(self, jobs: Sequence[Job]) -> list[bool]:
        """Store jobs in one round trip.

        Returns:
            For each job, in order: True when it was stored, False when its key was already used
            (also by an earlier job of the same call).

        Raises:
            KeyCollision: another key has this id; that job is not stored.
            StoreUnavailable: some may have been stored; repeat the call.
        """
        if not jobs:
            return []
        stored = [True] * len(jobs)
        try:
            self._jobs.insert_many([to_document(job) for job in jobs], ordered=False)
        except BulkWriteError as exc:
            errors = exc.details["writeErrors"]
            if any(error["code"] != _DUPLICATE_KEY for error in errors):
                raise
            for error in errors:
                stored[error["index"]] = False
            self._compare_keys([jobs[error["index"]] for error in errors])
            if exc.details["writeConcernErrors"]:
                raise
        return stored

    def _compare_keys(self, jobs: Sequence[Job]) -> None:
        wanted = {job.id: job.idempotency_key for job in jobs}
        for document in self._jobs.find({"_id": {"$in": list(wanted)}}, {"idempotencyKey": 1}):
            if document.get("idempotencyKey") != wanted[document["_id"]]:
                raise KeyCollision(
                    f"idempotencyKey {wanted[document['_id']]!r} has the same id as another key,"
                    f" {document['_id']}. Choose another key."
                )

    @outages_named()
    def find(self, job_id: ObjectId) -> Job | None:
        """The job with this id, or None."""
        document = self._jobs.find_one({"_id": job_id})
        return None if document is None else from_document(document)

    def get(self, job_id: ObjectId) -> Job:
        """The job with this id.

        Raises:
            JobNotFound: there is none.
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

    @outages_named()
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
            limit: at most so many.
            status, job_type, tag, template_id: only these; None: all.
            before: `next` of the page before; None: from the newest.
        """
        created_at, job_id = before or _NEWEST
        query: dict[str, Any] = {
            "tenantId": tenant_id,
            "createdAt": {"$gte": _OLDEST, "$lte": created_at},
            "_id": {"$type": "objectId"},
        }
        filters: Mapping[str, Any] = {
            "status": None if status is None else str(status),
            "jobType": job_type,
            "tags": tag,
            "templateId": template_id,
        }
        query.update({name: value for name, value in filters.items() if value is not None})
        if before is not None:
            query["$or"] = [
                {"createdAt": {"$lt": created_at}},
                {"createdAt": created_at, "_id": {"$lt": job_id}},
            ]
        # One more than asked for tells whether there is a next page.
        found = self._jobs.find(query, batch_size=limit + 1).limit(limit + 1)
        documents = list(found.sort([("createdAt", DESCENDING), ("_id", DESCENDING)]))
        shown = documents[:limit]
        more = len(documents) > limit
        return Page(
            [read_document(document) for document in shown],
            next=(shown[-1]["createdAt"], shown[-1]["_id"]) if more else None,
        )
