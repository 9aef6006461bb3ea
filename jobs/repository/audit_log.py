"""The audit log. It has no verb that changes or removes an entry."""

from __future__ import annotations

import logging
from collections.abc import Collection as AnyCollection
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from jobs.audit import Action, Author, Entry, Via
from jobs.json_text import dumps, loads
from jobs.logs import events
from jobs.repository.indexes import AUDIT_FOUND_BY, NEWEST
from jobs.repository.outages import outages_named
from jobs.repository.pages import newest_first

logger = logging.getLogger(__name__)

Place = tuple[datetime, ObjectId]
"""A place in a list: the instant and id of the entry before it."""


class AuditLog:
    """Append, list."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._entries = collection

    def append(self, entries: Sequence[Entry], session: ClientSession | None = None) -> None:
        """Write down what was done.

        Args:
            entries: what.
            session: of the transaction in which it is done; None: it is done already.
        """
        if not entries:
            return
        documents = [_document(entry) for entry in entries]
        # A transaction has to see the driver's own errors, to know when to begin again.
        with outages_named() if session is None else nullcontext():
            self._entries.insert_many(documents, session=session)

    @outages_named()
    def page(
        self,
        tenants: AnyCollection[str] | None,
        *,
        limit: int,
        target: str | None = None,
        action: Action | None = None,
        author: str | None = None,
        operation_id: str | None = None,
        before: Place | None = None,
    ) -> tuple[list[Entry], Place | None]:
        """Entries, newest first. Those that cannot be read are left out.

        Args:
            tenants: only of these; None: of all, and those that belong to none.
            limit: at most so many.
            target, action, author, operation_id: only these; None: all.
            before: where the page before ended; None: from the newest.

        Returns:
            The page, and where the next one begins; None: this is the last.
        """
        filters = {
            "tenantId": None if tenants is None else {"$in": sorted(tenants)},
            "targets": target,
            "action": None if action is None else str(action),
            "author": author,
            "operationId": operation_id,
        }
        query = {name: value for name, value in filters.items() if value is not None}
        documents, rest = newest_first(
            self._entries,
            query,
            by="at",
            limit=limit,
            before=before,
            hint=_index_for(query),
        )
        return list(_readable(documents)), rest


def _index_for(query: Mapping[str, Any]) -> str:
    """The index that leaves the least to look at."""
    return next((name for name, by in AUDIT_FOUND_BY.items() if query.keys() >= set(by)), NEWEST)


def _document(entry: Entry) -> dict[str, Any]:
    document: dict[str, Any] = {
        "_id": entry.id,
        "at": entry.at,
        "author": entry.author.name,
        "via": str(entry.author.via),
        "action": str(entry.action),
        "tenantId": entry.tenant_id,
        "targets": list(entry.targets),
        # As text: names that the payload brings need not be names that MongoDB takes.
        "before": dumps(dict(entry.before)),
        "after": dumps(dict(entry.after)),
    }
    if entry.operation_id is not None:
        document["operationId"] = entry.operation_id
    return document


def _readable(documents: Iterable[Mapping[str, Any]]) -> Iterator[Entry]:
    for document in documents:
        try:
            yield Entry(
                id=document["_id"],
                at=document["at"],
                author=Author(document["author"], Via(document["via"])),
                action=Action(document["action"]),
                tenant_id=document["tenantId"],
                targets=tuple(document["targets"]),
                before=loads(document["before"]),
                after=loads(document["after"]),
                operation_id=document.get("operationId"),
            )
        except (KeyError, TypeError, ValueError) as exc:
            logger.warning(
                "left out of the audit log's list: %r: %s",
                document["_id"],
                exc,
                extra=events.RECORD_UNREADABLE(error=exc),
            )
