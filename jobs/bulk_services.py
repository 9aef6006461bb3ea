"""What people may do to many dead letters at once. The reaper does it; see `reaper.bulk`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from bson import ObjectId

from jobs.audit import API_CLIENT, Author
from jobs.bulk import Filter, Kind, Operation
from jobs.repository import Repository
from jobs.repository.looks import Place


class BulkServices:
    """The use cases on one repository. Safe to share between threads.

    `tenants` are those that the caller may act on; None: all.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def start(
        self,
        kind: Kind,
        wanted: Filter,
        *,
        tenants: Collection[str] | None,
        by: Author = API_CLIENT,
    ) -> Operation:
        """Have something done to all dead letters of a filter that ended before now."""
        now = self._repository.clock.now()
        # What dies again, or dies meanwhile, is not taken: the operation has an end.
        until = now if wanted.until is None else min(now, wanted.until)
        wanted = replace(wanted, until=until)
        groups = self._repository.dead_letter_lists.groups(wanted, tenants)
        operation = Operation(
            id=ObjectId(),
            kind=kind,
            filter=wanted,
            tenants=wanted.tenants_within(tenants),
            author=by,
            started_at=now,
            total=groups.count,
            is_total_exact=groups.is_complete,
        )
        self._repository.bulk.start(operation)
        return operation

    def cancel(self, operation_id: ObjectId, *, by: Author = API_CLIENT) -> bool:
        """Stop an operation; what it has done stays. False: it was over already."""
        now = self._repository.clock.now()
        return self._repository.bulk.cancel(operation_id, by=by, now=now)

    def find(self, operation_id: ObjectId, *, tenants: Collection[str] | None) -> Operation | None:
        """An operation; None: there is none that is about these tenants alone."""
        return self._repository.bulk.find(operation_id, tenants)

    def recent(
        self, *, tenants: Collection[str] | None, limit: int, before: Place | None = None
    ) -> tuple[list[Operation], Place | None]:
        """Operations, the newest first, and where the next page begins."""
        return self._repository.bulk.page(tenants, limit=limit, before=before)
