"""The cursor of a list: a place in it, made opaque."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import Final

from bson import ObjectId
from bson.errors import InvalidId

from jobs.repository.jobs import Position

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_INSTANT_BYTES: Final = 8


def cursor_of(position: Position) -> str:
    """The cursor of a place: milliseconds since 1970 and the id, in base64url."""
    created_at, job_id = position
    millis = (created_at - _EPOCH) // _MILLISECOND
    packed = millis.to_bytes(_INSTANT_BYTES, "big", signed=True) + job_id.binary
    return urlsafe_b64encode(packed).decode().rstrip("=")


def position_of(cursor: str) -> Position:
    """The place that a cursor stands for.

    Raises:
        ValueError: `cursor_of` did not make it.
    """
    try:
        packed = urlsafe_b64decode(cursor + "=")
        millis = int.from_bytes(packed[:_INSTANT_BYTES], "big", signed=True)
        job_id = ObjectId(packed[_INSTANT_BYTES:].hex())
        position = (_EPOCH + millis * _MILLISECOND, job_id)
    except (ValueError, OverflowError, InvalidId):
        position = None
    # The decoder ignores what is not its alphabet, so only the way back shows that all was read.
    if position is None or cursor_of(position) != cursor:
        raise ValueError("must come from a Link header")
    return position
