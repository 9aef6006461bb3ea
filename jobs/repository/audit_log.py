"""The audit log. It has no verb that changes or removes an entry."""

from __future__ import annotations

import logging
from collections.abc import Collection as AnyCollection
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bson import ObjectId
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from jobs.audit import Action, Author, Entry, Via
from jobs.json_text import dumps, loads
from jobs.logs import events
from jobs.repository.documents import check_kinds
from jobs.repository.indexes import AUDIT_FOUND_BY, NEWEST
from jobs.repository.outages import outages_named
from jobs.repository.pages import newest_first

logger = logging.getLogger(__name__)

_KINDS: Final[Mapping[str, type]] = {
    **dict.fromkeys(("author", "via", "action", "tenantId", "before", "after"), str),
    "at": datetime,
    "targets": list,
    "operationId": str,
}
Place = tuple[datetime, ObjectId]
"""A place in a list: the instant and id of the entry before it."""


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """An entry that somebody edited by hand into something else."""

    id: object
    at: datetime
    problem: str


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
        broken: list[BrokenEntry] | None = None,
    ) -> tuple[list[Entry], Place | None]:
        """Entries, newest first. Those that cannot be read are left out.

        Args:
            tenants: only of these; None: of all, and those that belong to none.
            limit: at most so many.
            target, action, author, operation_id: only these; None: all.
            before: where the page before ended; None: from the newest.
            broken: takes those of the page that cannot be read, for who wants to tell of them.

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
        found = [_read(document) for document in documents]
        if broken is not None:
            broken += [each for each in found if isinstance(each, BrokenEntry)]
        return [each for each in found if isinstance(each, Entry)], rest


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


def _read(document: Mapping[str, Any]) -> Entry | BrokenEntry:
    try:
        check_kinds(document, _KINDS)
        return Entry(
            id=document["_id"],
            at=document["at"],
            author=Author(document["author"], Via(document["via"])),
            action=Action(document["action"]),
            tenant_id=document["tenantId"],
            targets=tuple(map(str, document["targets"])),
            before=_fields(document["before"]),
            after=_fields(document["after"]),
            operation_id=document.get("operationId"),
        )
    except KeyError as exc:
        problem = f"{exc.args[0]} is missing"
    except (TypeError, ValueError) as exc:
        problem = str(exc)
    extra = events.RECORD_UNREADABLE(error=problem)
    logger.warning(
        "left out of the audit log's list: %r: %s", document["_id"], problem, extra=extra
    )
    return BrokenEntry(document["_id"], document["at"], problem)


def _fields(text: str) -> Mapping[str, Any]:
    fields = loads(text)
    if not isinstance(fields, dict):
        raise ValueError(f"{text!r:.200} holds no fields")
    return fields
