"""Writes that people make: each happens in one transaction with its entry in the audit log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from jobs.audit import Action, Author, Entry
from jobs.exposure import changes
from jobs.repository.audit_log import AuditLog
from jobs.repository.outages import outages_named
from jobs.repository.transactions import in_transaction

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Who does what to what, and when."""

    by: Author
    action: Action
    targets: tuple[str, ...]
    """Ids of jobs, names of definitions."""
    at: datetime

    def entry(self, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Entry:
        """What the audit log is to say of it.

        Args:
            before: the document as it was; None: it is new.
            after: the document as it became; None: it is gone.
        """
        # Somebody may have edited it by hand.
        tenant_id = (after or before or {}).get("tenantId")
        old, new = changes(before, after)
        return Entry(
            at=self.at,
            author=self.by,
            action=self.action,
            tenant_id=tenant_id if isinstance(tenant_id, str) else "",
            targets=self.targets,
            before=old,
            after=new,
        )


class AuditedWrites:
    """Writes to single documents of a collection. What is refused leaves no entry."""

    def __init__(self, collection: Collection[Document], log: AuditLog) -> None:
        self._documents = collection
        self._log = log

    @outages_named()
    def change(
        self,
        deed: Deed,
        which: Mapping[str, Any],
        update: Mapping[str, Any],
        *,
        also: Callable[[Document, ClientSession], None] | None = None,
    ) -> Document | None:
        """Change one document.

        Args:
            deed: who does it, for the log.
            which: the document and the guard: what it must be like.
            update: what to change.
            also: is called with the document as it was, to write more in the same transaction.

        Returns:
            The document as it became; None: there is none that is like that.
        """

        def work(session: ClientSession) -> Document | None:
            before = self._documents.find_one_and_update(which, update, session=session)
            if before is None:
                return None
            after = self._documents.find_one({"_id": before["_id"]}, session=session)
            self._log.append([deed.entry(before, after)], session)
            if also is not None:
                also(before, session)
            return after

        return in_transaction(self._documents, work)

    @outages_named()
    def replace(
        self, deed: Deed, which: Mapping[str, Any], document: Document, *, is_new: bool = False
    ) -> bool:
        """Put a document in the place of another one.

        Args:
            deed: who does it, for the log.
            which: the other one, and what it must be like.
            document: the new one.
            is_new: the other one is only what was left of something.

        Returns:
            False: there is none that is like that.
        """

        def work(session: ClientSession) -> bool:
            before = self._documents.find_one_and_replace(which, document, session=session)
            if before is None:
                return False
            self._log.append([deed.entry(None if is_new else before, document)], session)
            return True

        return in_transaction(self._documents, work)

    @outages_named()
    def insert(self, deed: Deed, document: Document) -> bool:
        """Store a new document. False: its id was used already."""

        def work(session: ClientSession) -> bool:
            self._documents.insert_one(document, session=session)
            self._log.append([deed.entry(None, document)], session)
            return True

        try:
            return in_transaction(self._documents, work)
        except DuplicateKeyError:
            return False
