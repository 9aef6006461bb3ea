"""What dead letters still lack: their announcement in `jobs.dlq`, the group of their error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final

from bson import ObjectId
from pymongo import UpdateOne
from pymongo.collection import Collection

from jobs.error_groups import error_group
from jobs.lifecycle import Status
from jobs.repository.endings import ERROR_GROUP
from jobs.repository.indexes import DEAD_LETTERS, UNANNOUNCED
from jobs.repository.outages import outages_named

_BATCH: Final = 1_000
_DLQ = {"status": str(Status.DLQ)}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What the message of a dead letter says. Texts are "" where the document lacks them."""

    id: ObjectId
    tenant_id: str
    job_type: str
    idempotency_key: str
    attempts: int
    last_error: str


class DeadLetterStore:
    """A crash between the move to dlq and its message must not lose the message."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._jobs = collection

    @outages_named()
    def unannounced(self, *, before: datetime, limit: int) -> list[DeadLetter]:
        """Dead letters that ended before an instant and are not known to be announced."""
        found = self._jobs.find(
            {**_DLQ, "dlqPublishedAt": None, "finishedAt": {"$lt": before}},
            hint=UNANNOUNCED,
            limit=limit,
            batch_size=limit,
        )
        return [_dead_letter(document) for document in found]

    @outages_named()
    def mark_announced(self, job_ids: Sequence[ObjectId], *, now: datetime) -> None:
        """Note that these messages have arrived."""
        self._jobs.update_many(
            {**_DLQ, "_id": {"$in": list(job_ids)}}, {"$set": {"dlqPublishedAt": now}}
        )

    @outages_named()
    def assign_groups(self) -> int:
        """Give dead letters of earlier versions the group of their error. Repeatable.

        Returns:
            How many had none.
        """
        lacking = {**_DLQ, ERROR_GROUP: None}
        found = self._jobs.find(lacking, {"lastError": 1}, hint=DEAD_LETTERS)
        count = 0
        while documents := list(islice(found, _BATCH)):
            statements = [
                UpdateOne(
                    {**lacking, "_id": document["_id"]},
                    {"$set": {ERROR_GROUP: error_group(str(document.get("lastError", "")))}},
                )
                for document in documents
            ]
            count += self._jobs.bulk_write(statements, ordered=False).modified_count
        return count


def _dead_letter(document: dict[str, Any]) -> DeadLetter:
    # Also documents that broke the rules of a job are announced, so nothing is taken for granted.
    attempts = document.get("attempts")
    return DeadLetter(
        id=document["_id"],
        tenant_id=str(document.get("tenantId", "")),
        job_type=str(document.get("jobType", "")),
        idempotency_key=str(document.get("idempotencyKey", "")),
        attempts=attempts if isinstance(attempts, int) else 0,
        last_error=str(document.get("lastError", "")),
    )
