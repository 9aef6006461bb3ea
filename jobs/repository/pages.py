"""Lists by keyset: newest first, each document once, whatever is inserted meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from pymongo import DESCENDING
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

Id = TypeVar("Id")
Document = dict[str, Any]

_NEWEST: Final = datetime.max.replace(tzinfo=UTC)
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)
_PAGE_MS: Final = 10_000
# In one page, about: 5,000 documents could hold gigabytes.
_PAGE_CHARACTERS: Final = 16 << 20


def newest_first(
    collection: Collection[Document],
    query: Mapping[str, Any],
    *,
    by: str,
    limit: int,
    before: tuple[datetime, Id] | None,
    size: Callable[[Mapping[str, Any]], int] = lambda document: 0,
    hint: str | None = None,
    projection: Mapping[str, Any] | None = None,
    session: ClientSession | None = None,
) -> tuple[list[Document], tuple[datetime, Id] | None]:
    """One page of what a query finds.

    Args:
        collection: where.
        query: what; it may bound `by`, as a mapping.
        by: the field with the instant; documents that lack one are left out.
        limit: at most so many; fewer where they are large.
        before: where the page before ended; None: from the newest.
        size: how much a document holds, in characters.
        hint: the index to use.
        projection: the fields to fetch, `by` among them.
        session: of the transaction that it belongs to.

    Returns:
        The documents, and where the next page begins; None: this is the last.
    """
    at = _NEWEST if before is None else before[0]
    query = {**query, by: {"$gte": _OLDEST, "$lte": at, **query.get(by, {})}}
    if before is not None:
        query["$or"] = [{by: {"$lt": at}}, {by: at, "_id": {"$lt": before[1]}}]
    # One more than asked for tells whether there is a next page.
    found = collection.find(
        query, projection, batch_size=limit + 1, hint=hint, session=session
    ).limit(limit + 1)
    found.sort([(by, DESCENDING), ("_id", DESCENDING)]).max_time_ms(_PAGE_MS)
    shown: list[Document] = []
    characters = 0
    for document in found:
        if len(shown) == limit or characters > _PAGE_CHARACTERS:
            last = shown[-1]
            return shown, (last[by], last["_id"])
        shown.append(document)
        characters += size(document)
    return shown, None
