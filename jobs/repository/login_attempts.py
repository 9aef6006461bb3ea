"""How often somebody has tried to log in: by user name and address, and by address alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from pymongo import ReturnDocument
from pymongo.collection import Collection

from jobs.repository.outages import outages_named


@dataclass(frozen=True, slots=True)
class LoginAttempts:
    """The attempts of one window, the present one among them."""

    count: int
    until: datetime
    """When the window ends, and counting begins anew."""


class LoginAttemptStore:
    """Count, forget, take back. Shared by all API processes."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._attempts = collection

    @outages_named()
    def count(
        self, name: str | None, address: str, *, window: timedelta, now: datetime
    ) -> LoginAttempts:
        """Count an attempt that is about to be made.

        Counting first lets attempts at the same time get no further than others.

        Args:
            name: of the user, as typed; None: all names together.
            address: where it comes from.
            window: how long the first attempt, and those after it, are remembered.
            now: aware UTC.
        """
        # What somebody edited by hand into something else begins a new window.
        goes_on = {
            "$and": [
                {"$isNumber": "$count"},
                {"$eq": [{"$type": "$expiresAt"}, "date"]},
                {"$gt": ["$expiresAt", now]},
            ]
        }
        change = {
            "count": {"$cond": [goes_on, {"$add": ["$count", 1]}, 1]},
            "expiresAt": {"$cond": [goes_on, "$expiresAt", now + window]},
        }
        document: Any = self._attempts.find_one_and_update(
            {"_id": _id(name, address)},
            [{"$set": change}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        return LoginAttempts(document["count"], document["expiresAt"])

    @outages_named()
    def forget(self, name: str, address: str) -> None:
        """Begin anew: an attempt succeeded."""
        self._attempts.delete_one({"_id": _id(name, address)})

    @outages_named()
    def take_back(self, address: str) -> None:
        """Uncount one attempt with all names together: it succeeded.

        To forget the others would let whoever has one password guess all others.
        """
        self._attempts.update_one(
            {"_id": _id(None, address), "count": {"$gt": 0}}, {"$inc": {"count": -1}}
        )


def _id(name: str | None, address: str) -> bytes:
    # No names are kept: now and then somebody types a password there.
    text = address if name is None else f"{address}\n{name}"
    return blake2b(text.encode(errors="replace"), digest_size=16).digest()
