"""The texts in which secrets are kept, for sealing them anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from bson import ObjectId
from pymongo.collection import Collection

from jobs.repository.outages import outages_named

FIELDS: Final = ("delivery", "overrides")


@dataclass(frozen=True, slots=True)
class SealedText:
    """A field of a document, which may hold sealed secrets."""

    id: ObjectId
    field: str
    text: str


class SealedStore:
    """Those of one collection. Reads all of it: for a command, not for a role."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._documents = collection

    @outages_named()
    def all(self) -> Iterator[SealedText]:
        """Every text that names a secret."""
        for field in FIELDS:
            for document in self._documents.find({field: {"$regex": "secret"}}, {field: 1}):
                yield SealedText(document["_id"], field, document[field])

    @outages_named()
    def replace(self, sealed: SealedText, text: str) -> bool:
        """Put another text in its place. False where it was changed meanwhile."""
        guard = {"_id": sealed.id, sealed.field: sealed.text}
        changed = self._documents.update_one(guard, {"$set": {sealed.field: text}})
        return changed.modified_count == 1
