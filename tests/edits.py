"""What documents look like that somebody edited by hand: any value in any field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import product
from typing import Any, Final

from bson import MaxKey, ObjectId, Regex
from bson.datetime_ms import DatetimeMS

from jobs.repository.definitions import definition_id
from tests.builders import NOW

ABSENT: Final = object()
VALUES: Final[tuple[Any, ...]] = (
    *(ABSENT, None, True, "x", "7", -1, 2**63 - 1, float("nan"), b"x", Regex("x"), MaxKey()),
    *(DatetimeMS(1 << 60), datetime(9999, 12, 31, 23, 59, tzinfo=UTC), [NOW, NOW], {"$gt": ""}),
)
FEW: Final[tuple[Any, ...]] = (ABSENT, "x", 2**63 - 1, Regex("x"), DatetimeMS(1 << 60), [NOW, NOW])
"""Of those the ones that have done harm."""
BUCKET: Final = {
    "due": 5,
    "openedAt": NOW,
    "openedBy": "s1",
    "term": 3,
    "triggeredAt": NOW,
    "triggeredBy": "s1",
    "partitions": 4,
}
DEFINITION: Final = {
    "_id": definition_id("t", "hook"),
    "tenantId": "t",
    "name": "hook",
    "version": 1,
    "jobType": "http",
    "createdAt": NOW,
    "updatedAt": NOW,
    "description": "d",
    "payload": "{}",
    "delivery": '{"url": "https://example.com/"}',
    "priority": 1,
    "maxAttempts": 2,
    "retry": {"base": 1},
    "timeoutSeconds": 3,
    "tags": ["a"],
    "lastUse": ObjectId(),
}


def edited(document: Mapping[str, Any], values: Sequence[Any] = VALUES) -> Iterator[dict[str, Any]]:
    """The document, once for each field and each value that may stand in it."""
    for name, value in product(sorted(document.keys() - {"_id"}), values):
        copy = dict(document)
        if value is ABSENT:
            del copy[name]
        else:
            copy[name] = value
        yield copy
