"""Records that are written once, under ids that are known before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

DUPLICATE_KEY: Final = 11000


def insert_new(collection: Collection[dict[str, Any]], documents: Sequence[dict[str, Any]]) -> None:
    """Store those that are not there yet, in one round trip; so it may be repeated."""
    if not documents:
        return
    try:
        collection.insert_many(documents, ordered=False)
    except BulkWriteError as exc:
        is_there = all(error["code"] == DUPLICATE_KEY for error in exc.details["writeErrors"])
        if not is_there or exc.details["writeConcernErrors"]:
            raise


def belonging_to(owner: object) -> dict[str, str]:
    """What to ask of `_id` for all records of an owner: those named `<owner>-<something>`."""
    # The dot is the character after the dash.
    return {"$gte": f"{owner}-", "$lt": f"{owner}."}
