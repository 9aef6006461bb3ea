"""What clients may do to definitions: the use cases behind `/v1/definitions`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from jobs.audit import API_CLIENT, Author
from jobs.definitions import Definition, resealed_overrides
from jobs.delivery.config import decoded, delivery_text, merged, resealed
from jobs.delivery.kept import kept, without_removals
from jobs.errors import (
    ConfigError,
    DefinitionExists,
    DefinitionInUse,
    DefinitionNotFound,
    InvalidJob,
    SecretUnreadable,
    VersionMismatch,
)
from jobs.repository import Repository
from jobs.submission import Catalog, definition_from

# What GET shows may be sent back as it is.
_SHOWN_ONLY: Final = frozenset({"version", "createdAt", "updatedAt"})
NOTHING: Final = 0
"""The version of a definition that does not exist."""


class DefinitionServices:
    """The use cases on one repository. Safe to share between threads."""

    def __init__(self, repository: Repository, catalog: Catalog) -> None:
        """
        Args:
            repository: where the definitions are.
            catalog: the types and keys that they may use.
        """
        self._repository = repository
        self._catalog = catalog

    def create(self, document: object, *, by: Author = API_CLIENT) -> Definition:
        """Store the definition that a decoded JSON document asks for.

        Raises:
            InvalidJob: the document breaks a rule.
            DefinitionExists: the tenant has one of this name.
        """
        definition = self._definition_from(document)
        stored = self._repository.definitions.create(definition, by=by)
        if stored is None:
            raise DefinitionExists(
                f"the tenant has a definition {definition.name!r} already; PUT replaces it"
            )
        return stored

    def get(self, tenant_id: str, name: str) -> Definition:
        """The current version.

        Raises:
            DefinitionNotFound: there is none.
        """
        definition = self._repository.definitions.find(tenant_id, name)
        if definition is None:
            raise DefinitionNotFound(f"the tenant has no definition {name[:200]!r}")
        return definition

    def put(
        self,
        tenant_id: str,
        name: str,
        document: object,
        *,
        version: int | None = None,
        by: Author = API_CLIENT,
    ) -> tuple[Definition, bool]:
        """Store a definition, or a new version of it.

        Secrets that the document leaves out stay as they are; null removes them.

        Args:
            tenant_id, name: which; the document may repeat them.
            document: decoded JSON; may hold what is shown of a definition.
            version: the only one that may be replaced, or NOTHING; None: whatever is current.
            by: who does it.

        Returns:
            The stored version, and whether the name is new.

        Raises:
            InvalidJob: the document breaks a rule, or changes the job type.
            VersionMismatch: another version is current, or none.
        """
        document = _named(document, tenant_id, name)
        # Once more for each change by somebody else in the meantime.
        while True:
            old = self._repository.definitions.find(tenant_id, name)
            _require_version(old, version)
            if old is None:
                first = self._definition_from(document)
                created = self._repository.definitions.create(first, by=by)
                if created is not None:
                    return created, True
            else:
                new = self._next_version(old, document)
                if self._repository.definitions.replace(new, version=old.version, by=by):
                    return new, False

    def delete(
        self,
        tenant_id: str,
        name: str,
        *,
        version: int | None = None,
        by: Author = API_CLIENT,
    ) -> Definition:
        """Delete a definition. Jobs that were made from it go on.

        Returns:
            What was deleted.

        Raises:
            DefinitionNotFound: there is none.
            DefinitionInUse: a template that is not over uses it.
            VersionMismatch: another version is current.
        """
        while True:
            old = self.get(tenant_id, name)
            _require_version(old, version)
            deleted = self._repository.uses.delete_definition(
                tenant_id, name, version=old.version, now=self._repository.clock.now(), by=by
            )
            if deleted is True:
                return old
            if deleted:
                raise DefinitionInUse(
                    f"template {deleted} uses the definition {name!r}: cancel it first"
                )

    def reseal(self) -> tuple[int, int]:
        """Seal every stored secret, of definitions and of jobs, with the first key.

        Returns:
            How many texts were sealed anew, and how many no key opens.

        Raises:
            ConfigError: there is no key.
        """
        secrets = self._catalog.secrets
        if not secrets.has_keys:
            raise ConfigError("ENCRYPTION_KEYS is not set: name the new key first, then the old.")
        done = unreadable = 0
        for store in self._repository.sealed:
            for sealed in store.all():
                reseal = resealed if sealed.field == "delivery" else resealed_overrides
                try:
                    done += store.replace(sealed, reseal(sealed.text, secrets))
                except (SecretUnreadable, InvalidJob):
                    unreadable += 1
        return done, unreadable

    def _definition_from(self, document: object) -> Definition:
        now = self._repository.clock.now()
        return definition_from(document, now=now, catalog=self._catalog)

    def _next_version(self, old: Definition, document: dict[str, Any]) -> Definition:
        given = document.get("delivery")
        if not isinstance(given, dict):
            given = {}
        else:
            document = document | {"delivery": without_removals(given)}
        new = self._definition_from(document)
        if new.job_type != old.job_type:
            raise InvalidJob(
                "jobType", f"is {old.job_type} and cannot change: make another definition"
            )
        if new.delivery is not None and old.delivery is not None:
            before = decoded(old.delivery)
            delivery = merged(kept(given, before), decoded(new.delivery))
            new = replace(new, delivery=delivery_text(delivery))
        return replace(new, version=old.version + 1, created_at=old.created_at)


def _named(document: object, tenant_id: str, name: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise InvalidJob("body", "must be an object")
    for field, value in (("tenantId", tenant_id), ("name", name)):
        if document.get(field, value) != value:
            raise InvalidJob(field, f"must be {value!r}, as in the address, or absent")
    said = {field: value for field, value in document.items() if field not in _SHOWN_ONLY}
    return said | {"tenantId": tenant_id, "name": name}


def _require_version(current: Definition | None, version: int | None) -> None:
    found = NOTHING if current is None else current.version
    if version is None or version == found:
        return
    if found == NOTHING:
        raise VersionMismatch(f"there is no version {version}: the definition does not exist")
    if version == NOTHING:
        raise VersionMismatch(f"the definition exists, in version {found}")
    raise VersionMismatch(f"the definition has version {found}, not {version}: read it again")
