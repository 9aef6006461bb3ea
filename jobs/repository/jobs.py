"""Storing jobs and reading them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from jobs.errors import JobNotFound, KeyCollision
from jobs.lifecycle import Job, Status
from jobs.repository.documents import from_document, to_document
from jobs.repository.outages import outages_named

_DUPLICATE_KEY = 11000


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
    def page(
        self,
        tenant_id: str,
        *,
        limit: int,
        status: Status | None = None,
        job_type: str | None = None,
        tag: str | None = None,
        template_id: ObjectId | None = None,
        before: tuple[datetime, ObjectId] | None = None,
    ) -> list[Job]:
        """A tenant's jobs and templates, newest first.

        Args:
            tenant_id: whose.
            limit: at most so many.
            status, job_type, tag, template_id: only these; None: all.
            before: `(created_at, id)` of the last job of the page before; None: from the newest.
        """
        query: dict[str, Any] = {"tenantId": tenant_id}
        filters: Mapping[str, Any] = {
            "status": None if status is None else str(status),
            "jobType": job_type,
            "tags": tag,
            "templateId": template_id,
        }
        query.update({name: value for name, value in filters.items() if value is not None})
        if before is not None:
            created_at, job_id = before
            query["createdAt"] = {"$lte": created_at}
            query["$or"] = [
                {"createdAt": {"$lt": created_at}},
                {"createdAt": created_at, "_id": {"$lt": job_id}},
            ]
        found = self._jobs.find(query, batch_size=limit).sort([("createdAt", -1), ("_id", -1)])
        return [from_document(document) for document in found.limit(limit)]
