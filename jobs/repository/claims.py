"""The executor's side: queued → claimed → running → over, each write fenced by the claim's id."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId
from pymongo import UpdateMany
from pymongo.collection import Collection

from jobs.errors import UnreadableJob
from jobs.lifecycle import LEASED, Finish, Job, Status
from jobs.logs import events
from jobs.repository.documents import from_document
from jobs.repository.endings import Retention, dead_letter_change, finish_change
from jobs.repository.outages import outages_named
from jobs.repository.refusals import update_all

logger = logging.getLogger(__name__)

_LEASED = {"$in": [str(status) for status in LEASED]}


Claim = tuple[ObjectId, str]
"""A job's id and the id of the claim on it."""


class ClaimStore:
    """One executor's hold on jobs. A claim that was lost can never write."""

    def __init__(self, collection: Collection[dict[str, Any]], retention: Retention) -> None:
        self._jobs = collection
        self._retention = retention

    @outages_named()
    def claim(
        self,
        job_ids: Sequence[ObjectId],
        *,
        owner: str,
        claim_id: str,
        lease: timedelta,
        now: datetime,
        start: bool = False,
    ) -> list[Job]:
        """Give queued jobs to one executor, in one write and one read.

        Args:
            job_ids: the jobs named by the messages; unknown or already claimed ids are ignored.
            owner: executor name, unique per process.
            claim_id: fresh; fences every later write of these claims.
            lease: how long the claim holds without a sign of life.
            now: aware UTC.
            start: the handlers start at once, so queued → running in the same write.

        Returns:
            The claimed jobs. A missing one was claimed elsewhere, cancelled or finished: drop its
            message. One whose document cannot be read is dead-lettered here.

        Raises:
            StoreUnavailable: no answer in time; do not commit the offsets.
        """
        status = Status.RUNNING if start else Status.CLAIMED
        change = {
            "status": str(status),
            "claimedBy": owner,
            "claimedAt": now,
            "claimId": claim_id,
            "leaseUntil": now + lease,
            "updatedAt": now,
            **({"startedAt": now} if start else {}),
        }
        # Kafka may deliver a message twice; the status guard makes the second claim a no-op.
        update_all(self._jobs, job_ids, {"status": str(Status.QUEUED)}, {"$set": change})
        # Also when nothing moved: the call may repeat one whose answer was lost.
        found = self._jobs.find(
            {"_id": {"$in": list(job_ids)}, "claimId": claim_id}, batch_size=len(job_ids)
        )
        # Messages come in the order of dispatch; the store answers in its own.
        by_id = {document["_id"]: document for document in found}
        jobs = []
        for job_id in job_ids:
            if (document := by_id.pop(job_id, None)) is not None:
                try:
                    jobs.append(from_document(document))
                except UnreadableJob as exc:
                    self._dead_letter_unreadable(job_id, claim_id, str(exc), now)
        return jobs

    def _dead_letter_unreadable(
        self, job_id: ObjectId, claim_id: str, reason: str, now: datetime
    ) -> None:
        extra = events.JOB_UNREADABLE(job_id=str(job_id), error=reason)
        logger.error("dead-lettering a job that cannot be read", extra=extra)
        self._jobs.update_one(
            {"_id": job_id, "claimId": claim_id}, dead_letter_change(reason, self._retention, now)
        )

    @outages_named()
    def start(self, held: Sequence[Claim], *, now: datetime) -> set[Claim]:
        """claimed → running, durable before a handler starts.

        Without it a job that kills its executor could not be told from its neighbours that were
        only waiting, and either all or none of them would lose an attempt.

        Returns:
            The claims whose jobs may run. A missing one holds no longer.
        """
        moved = self._write(
            held,
            str(Status.CLAIMED),
            {"$set": {"status": str(Status.RUNNING), "startedAt": now, "updatedAt": now}},
        )
        return set(held) if moved == len(held) else self._held(held, str(Status.RUNNING))

    @outages_named()
    def extend(self, held: Sequence[Claim], *, until: datetime) -> set[Claim]:
        """Hold claims for longer.

        Args:
            held: job and claim ids.
            until: the leases' new end.

        Returns:
            The claims that hold no longer: reaped, cancelled, or finished meanwhile.
        """
        matched = self._write(held, _LEASED, {"$set": {"leaseUntil": until}})
        return set() if matched == len(held) else self.lost(held)

    @outages_named()
    def lost(self, held: Sequence[Claim]) -> set[Claim]:
        """Which of these claims no longer hold, without extending them."""
        return set(held) - self._held(held, _LEASED)

    @outages_named()
    def finish(self, finishes: Sequence[Finish], *, now: datetime) -> int:
        """running → completed, pending or dlq, for many jobs in one round trip.

        Jobs that end alike (same claim, instants and outcome) share one statement, so a fast
        handler costs a fraction of a write per job.

        Returns:
            How many were written. The others had lost their claim: theirs is not the truth.

        Raises:
            StoreUnavailable: repeat the call; what was written already does not match again, so
                the count of a repeated call is too low.
        """
        if not finishes:
            return 0
        alike: dict[Finish, list[ObjectId]] = defaultdict(list)
        nobody = ObjectId(b"\0" * 12)
        for finish in finishes:
            alike[replace(finish, job_id=nobody)].append(finish.job_id)
        statements = [
            UpdateMany(
                {
                    "_id": {"$in": ids},
                    "claimId": finish.claim_id,
                    "status": str(Status.RUNNING),
                },
                finish_change(finish, self._retention, now),
            )
            for finish, ids in alike.items()
        ]
        return self._jobs.bulk_write(statements, ordered=False).matched_count

    @outages_named()
    def hand_back(self, held: Sequence[Claim], *, now: datetime) -> int:
        """claimed or running → pending at an orderly shutdown; costs no attempt.

        Returns:
            How many went back.
        """
        return self._write(
            held,
            _LEASED,
            {
                "$set": {"status": str(Status.PENDING), "updatedAt": now},
                "$unset": dict.fromkeys(("claimId", "leaseUntil", "queuedAt", "startedAt"), ""),
            },
        )

    def _write(self, held: Sequence[Claim], status: Any, change: dict[str, Any]) -> int:
        """Change the jobs whose claim still holds. Returns how many."""
        if not held:
            return 0
        # By claim: a job that was lost and claimed again must not match by its neighbour's.
        by_claim: dict[str, list[ObjectId]] = defaultdict(list)
        for job_id, claim_id in held:
            by_claim[claim_id].append(job_id)
        statements = [
            UpdateMany({"_id": {"$in": ids}, "claimId": claim_id, "status": status}, change)
            for claim_id, ids in by_claim.items()
        ]
        return self._jobs.bulk_write(statements, ordered=False).matched_count

    def _held(self, held: Sequence[Claim], status: Any) -> set[Claim]:
        query = {"_id": {"$in": [job_id for job_id, _ in held]}, "status": status}
        found = self._jobs.find(query, {"claimId": 1}, batch_size=len(held))
        claims = {document["_id"]: document.get("claimId") for document in found}
        return {claim for claim in held if claims.get(claim[0]) == claim[1]}
