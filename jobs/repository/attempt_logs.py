"""The lines that handlers logged, by attempt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pymongo import ASCENDING
from pymongo.collection import Collection

from jobs.executions import AttemptLog, LogLine
from jobs.repository.outages import outages_named
from jobs.repository.records import belonging_to, insert_new


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Some lines of one attempt."""

    execution_id: str
    place: int
    """How many lines of the attempt come before."""
    lines: Sequence[LogLine]
    is_truncated: bool = False
    """Not all that was logged is kept."""


class AttemptLogStore:
    """Appends and reads. One document holds one batch; their ids are in the order of the lines."""

    def __init__(self, collection: Collection[dict[str, Any]], retention: timedelta) -> None:
        self._logs = collection
        self._retention = retention

    @outages_named()
    def append(self, batches: Sequence[LogBatch], *, now: datetime) -> int:
        """Store batches in one round trip; those that are there already are left as they are.

        Args:
            batches: of any attempts.
            now: aware UTC; from then on they are kept for RETENTION_LOGS.

        Returns:
            How many lines they hold.

        Raises:
            StoreUnavailable: repeat the call.
        """
        expires_at = now + self._retention
        insert_new(self._logs, [_document(batch, expires_at) for batch in batches])
        return sum(len(batch.lines) for batch in batches)

    @outages_named()
    def find(self, execution_id: str) -> AttemptLog | None:
        """What an attempt has logged so far, oldest line first; None: nothing is kept."""
        found = self._logs.find({"_id": belonging_to(execution_id)}).sort("_id", ASCENDING)
        documents = list(found)
        if not documents:
            return None
        return AttemptLog(
            lines=[line for document in documents for line in _lines(document.get("lines"))],
            is_truncated=any(document.get("truncated") for document in documents),
        )


def _document(batch: LogBatch, expires_at: datetime) -> dict[str, Any]:
    document = {
        "_id": f"{batch.execution_id}-{batch.place:06}",
        "lines": [
            {"at": line.at, "level": line.level, "logger": line.logger, "message": line.message}
            for line in batch.lines
        ],
        "expiresAt": expires_at,
    }
    if batch.is_truncated:
        document["truncated"] = True
    return document


def _lines(entries: object) -> Iterator[LogLine]:
    """The lines of a batch, without what somebody edited into something else."""
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("at"), datetime):
            texts = [entry.get(name) for name in ("level", "logger", "message")]
            yield LogLine(entry["at"], *map(str, texts))
