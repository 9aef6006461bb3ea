"""Definitions: one document each, replaced as a whole, never without a new version."""

from __future__ import annotations

from collections.abc import Collection as AnyCollection
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

from bson import ObjectId
from pymongo.collection import Collection

from jobs.audit import API_CLIENT, Action, Author
from jobs.definitions import Definition, Definitions, check_stored
from jobs.delivery.config import DELIVERY_TYPES, delivery_of
from jobs.errors import InvalidJob, UnreadableDefinition
from jobs.repository.audit_log import AuditLog
from jobs.repository.audited import AuditedWrites, Deed
from jobs.repository.indexes import NEWEST, TENANT_LIST
from jobs.repository.jobs import Position
from jobs.repository.outages import outages_named
from jobs.repository.pages import newest_first

Name = tuple[str, str]
"""Tenant and name."""
_OPTIONAL: Final = (
    ("description", "description", str),
    ("delivery", "delivery", str),
    ("payload", "payload", str),
    ("priority", "priority", int),
    ("maxAttempts", "max_attempts", int),
    ("retry", "retry", dict),
    ("timeoutSeconds", "timeout_seconds", (int, float)),
)
_REQUIRED: Final = (
    ("tenantId", "tenant_id", str),
    ("name", "name", str),
    ("version", "version", int),
    ("jobType", "job_type", str),
    ("createdAt", "created_at", datetime),
    ("updatedAt", "updated_at", datetime),
)
_INT32: Final = 1 << 31
# A deleted one leaves its version behind: the name may come back, a version never.
LIVE: Final = {"deletedAt": {"$exists": False}}


class DefinitionStore:
    """Create, replace, find; deleting is up to `UseStore`. Who does it is for the audit log."""

    def __init__(self, collection: Collection[dict[str, Any]], log: AuditLog) -> None:
        self._definitions = collection
        self._audited = AuditedWrites(collection, log)

    @outages_named()
    def create(self, definition: Definition, *, by: Author = API_CLIENT) -> Definition | None:
        """Store a new definition; its version follows that of a deleted one of the same name.

        Returns:
            It as stored; None when the name is taken.

        Raises:
            UnreadableDefinition: a deleted one left no version behind that can be counted on.
        """
        document = _document(definition) | {"version": 1}
        deed = _deed(Action.DEFINITION_CREATE, definition, by)
        if self._audited.insert(deed, document) or self._revive(deed, document):
            return _definition(document)
        return None

    def _revive(self, deed: Deed, document: dict[str, Any]) -> bool:
        deleted = {"_id": document["_id"], "deletedAt": {"$exists": True}}
        # Once per version that somebody else creates and deletes meanwhile.
        while (old := self._definitions.find_one(deleted, {"version": 1})) is not None:
            version = _version(old, deed.targets[0])
            document["version"] = version + 1
            guard = {**deleted, "version": version}
            if self._audited.replace(deed, guard, document, is_new=True):
                return True
        return False

    @outages_named()
    def replace(self, definition: Definition, *, version: int, by: Author = API_CLIENT) -> bool:
        """Put a new version in the place of an older one.

        Args:
            definition: the new version.
            version: the older one.
            by: who does it.

        Returns:
            False when that is no longer the current one.
        """
        guard = {
            "_id": definition_id(definition.tenant_id, definition.name),
            "version": version,
            **LIVE,
        }
        deed = _deed(Action.DEFINITION_CHANGE, definition, by)
        return self._audited.replace(deed, guard, _document(definition))

    @outages_named()
    def find(self, tenant_id: str, name: str) -> Definition | None:
        """The current version, or None.

        Raises:
            UnreadableDefinition: its document breaks the rules.
        """
        document = self._definitions.find_one({"_id": definition_id(tenant_id, name), **LIVE})
        return None if document is None else _definition(document)

    @outages_named()
    def find_all(self, names: AnyCollection[Name]) -> Definitions:
        """The current versions of these, in one round trip; those that do not exist are absent."""
        if not names:
            return {}
        ids = {definition_id(*name): name for name in names}
        found = self._definitions.find({"_id": {"$in": list(ids)}, **LIVE})
        result: dict[Name, Definition | UnreadableDefinition] = {}
        for document in found:
            result[ids[document["_id"]]] = _read(document)
        return result

    def page(
        self,
        tenant_id: str,
        *,
        limit: int,
        job_type: str | None = None,
        tag: str | None = None,
        before: Position | None = None,
    ) -> tuple[list[Definition], Position | None]:
        """A tenant's definitions, newest first. Those that cannot be read are left out.

        Args:
            tenant_id: whose.
            limit: at most so many.
            job_type, tag: only these; None: all.
            before: where the page before ended.

        Returns:
            The page, and where the next one begins; None: this is the last.
        """
        filters = {"tenantId": tenant_id, "jobType": job_type, "tags": tag}
        query = {name: value for name, value in filters.items() if value is not None}
        found, following = self._page(query, limit, before, TENANT_LIST)
        return [each for each in found if isinstance(each, Definition)], following

    def listed(
        self, tenants: AnyCollection[str] | None, *, limit: int, before: Position | None = None
    ) -> tuple[list[Definition | UnreadableDefinition], Position | None]:
        """The same of several tenants, with what is wrong with those that cannot be read.

        Args:
            tenants: whose; None: of all.
            limit, before: as in `page`.
        """
        if tenants is None:
            return self._page({}, limit, before, NEWEST)
        return self._page({"tenantId": {"$in": sorted(tenants)}}, limit, before, TENANT_LIST)

    @outages_named()
    def _page(
        self, query: Mapping[str, Any], limit: int, before: Position | None, index: str
    ) -> tuple[list[Definition | UnreadableDefinition], Position | None]:
        found, following = newest_first(
            self._definitions,
            {**query, **LIVE},
            by="createdAt",
            limit=limit,
            before=before,
            hint=index,
        )
        return [_read(document) for document in found], following


def definition_id(tenant_id: str, name: str) -> ObjectId:
    """The id of the definition with this name."""
    # Neither may hold NUL.
    return ObjectId(blake2b(f"{tenant_id}\0{name}".encode()).digest()[:12])


def _deed(action: Action, definition: Definition, by: Author) -> Deed:
    return Deed(by=by, action=action, targets=(definition.name,), at=definition.updated_at)


def _document(definition: Definition) -> dict[str, Any]:
    document: dict[str, Any] = {"_id": definition_id(definition.tenant_id, definition.name)}
    for name, attribute, _ in (*_REQUIRED, *_OPTIONAL):
        value = getattr(definition, attribute)
        if value is not None:
            document[name] = value
    if definition.tags:
        document["tags"] = list(definition.tags)
    return document


def _read(document: Mapping[str, Any]) -> Definition | UnreadableDefinition:
    try:
        return _definition(document)
    except UnreadableDefinition as exc:
        return exc


def _version(document: Mapping[str, Any], name: object) -> int:
    version = document.get("version")
    # The next one is to be another, and a number that MongoDB can hold.
    if not isinstance(version, int) or isinstance(version, bool) or not 0 < version < _INT32:
        raise UnreadableDefinition(f"definition {name!r:.100}: version cannot be {version!r:.100}")
    return version


def _definition(document: Mapping[str, Any]) -> Definition:
    values: dict[str, Any] = {}
    for name, attribute, kind in (*_REQUIRED, *_OPTIONAL):
        value = document.get(name)
        if value is None and (name, attribute, kind) in _OPTIONAL:
            continue
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UnreadableDefinition(
                f"definition {document.get('name')!r:.100}: {name} cannot be {value!r:.100}"
            )
        values[attribute] = value
    _version(document, values["name"])
    tags = document.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise UnreadableDefinition(f"definition {values['name']!r}: tags cannot be {tags!r:.100}")
    values["tags"] = tuple(tags)
    try:
        check_stored(values)
        if values["job_type"] in DELIVERY_TYPES:
            delivery_of(values["job_type"], values.get("delivery"))
    except InvalidJob as exc:
        raise UnreadableDefinition(f"definition {values['name']!r}: {exc}") from exc
    return Definition(**values)
