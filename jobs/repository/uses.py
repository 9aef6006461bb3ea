"""Templates use definitions: what has to happen to both at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from jobs.audit import API_CLIENT, Action, Author
from jobs.lifecycle import Job, Status
from jobs.repository.audit_log import AuditLog
from jobs.repository.audited import Deed
from jobs.repository.definitions import LIVE, definition_id
from jobs.repository.documents import (
    KIND,
    RUNNABLE,
    TEMPLATE,
    BrokenJob,
    read_document,
    to_document,
)
from jobs.repository.indexes import TEMPLATES_BY_DEFINITION
from jobs.repository.outages import outages_named
from jobs.repository.pages import newest_first
from jobs.repository.transactions import in_transaction

_NOT_OVER = {"$in": [str(Status.PENDING), str(Status.PAUSED)]}


class UseStore:
    """A definition is deleted only while no template uses it, whoever submits one meanwhile."""

    def __init__(
        self,
        jobs: Collection[dict[str, Any]],
        definitions: Collection[dict[str, Any]],
        log: AuditLog,
    ) -> None:
        self._jobs = jobs
        self._definitions = definitions
        self._log = log

    @outages_named()
    def insert_template(
        self, template: Job, also: Callable[[ClientSession], None] | None = None
    ) -> bool | None:
        """Store a template with a definition.

        Args:
            template: it.
            also: writes more in the same transaction.

        Returns:
            False when its key, or its id, was used already; None: the definition is gone.
        """
        definition = _live(template.tenant_id, template.definition or "")

        def work(session: ClientSession) -> bool | None:
            # A write, so that this and the deletion cannot both succeed. Always another value, and
            # one that takes the place of whatever is there: a counter could be edited by hand.
            use = {"$set": {"lastUse": ObjectId()}}
            used = self._definitions.update_one(definition, use, session=session)
            if not used.modified_count:
                return None
            self._jobs.insert_one(to_document(template), session=session)
            if also is not None:
                also(session)
            return True

        try:
            return in_transaction(self._jobs, work)
        except DuplicateKeyError:
            return False

    @outages_named()
    def delete_definition(
        self,
        tenant_id: str,
        name: str,
        *,
        version: int,
        now: datetime,
        by: Author = API_CLIENT,
    ) -> bool | ObjectId:
        """Delete a definition that no template uses.

        Its version stays behind: the name may come back, a version never.

        Returns:
            False when that version is no longer the current one; a template that uses it, where
            there is one.
        """
        definition = {**_live(tenant_id, name), "version": version}
        left = {"tenantId": tenant_id, "name": name, "version": version, "deletedAt": now}
        deed = Deed(by=by, action=Action.DEFINITION_DELETE, targets=(name,), at=now)
        users = {"tenantId": tenant_id, "definition": name, KIND: TEMPLATE, "status": _NOT_OVER}

        def work(session: ClientSession) -> bool | ObjectId:
            user = self._jobs.find_one(
                users, {"_id": 1}, hint=TEMPLATES_BY_DEFINITION, session=session
            )
            if user is not None:
                found: ObjectId = user["_id"]
                return found
            deleted = self._definitions.find_one_and_replace(definition, left, session=session)
            if deleted is not None:
                self._log.append([deed.entry(deleted, None)], session)
            return deleted is not None

        return in_transaction(self._definitions, work)

    @outages_named()
    def templates(self, tenant_id: str, name: str, *, limit: int) -> list[Job | BrokenJob]:
        """Some of the templates that use a definition, also those that are over."""
        found = self._jobs.find(
            {"tenantId": tenant_id, "definition": name, KIND: TEMPLATE},
            hint=TEMPLATES_BY_DEFINITION,
        )
        return [read_document(document) for document in found.limit(limit)]

    @outages_named()
    def jobs(self, tenant_id: str, name: str, *, limit: int) -> list[Job | BrokenJob]:
        """The jobs that were made from a definition, by whatever, the latest due first."""
        found, _ = newest_first(
            self._jobs,
            {"tenantId": tenant_id, "definition": name, KIND: RUNNABLE},
            by="scheduledAt",
            limit=limit,
            before=None,
            hint="schedules_by_definition",
        )
        return [read_document(document) for document in found]


def _live(tenant_id: str, name: str) -> dict[str, Any]:
    return {"_id": definition_id(tenant_id, name), **LIVE}
