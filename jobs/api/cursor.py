"""The cursor of a list: a place in it, made opaque."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from bson import ObjectId
from bson.errors import InvalidId

from jobs.repository.executions import Place
from jobs.repository.jobs import Position

Id = TypeVar("Id", ObjectId, str)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_INSTANT_BYTES: Final = 8


def cursor_of(position: Position | Place) -> str:
    """The cursor of a place: milliseconds since 1970 and the id, in base64url."""
    at, last_id = position
    millis = (at - _EPOCH) // _MILLISECOND
    packed_id = last_id.encode() if isinstance(last_id, str) else last_id.binary
    packed = millis.to_bytes(_INSTANT_BYTES, "big", signed=True) + packed_id
    return urlsafe_b64encode(packed).decode().rstrip("=")


def position_of(cursor: str) -> Position:
    """The place in a list of jobs or definitions that a cursor stands for.

    Raises:
        ValueError: `cursor_of` did not make it.
    """
    return _position_of(cursor, lambda packed: ObjectId(packed.hex()))


def place_of(cursor: str) -> Place:
    """The same in a list of executions."""
    return _position_of(cursor, bytes.decode)


def _position_of(cursor: str, id_of: Callable[[bytes], Id]) -> tuple[datetime, Id]:
    try:
        packed = urlsafe_b64decode(cursor + "==")
        millis = int.from_bytes(packed[:_INSTANT_BYTES], "big", signed=True)
        position = (_EPOCH + millis * _MILLISECOND, id_of(packed[_INSTANT_BYTES:]))
    except (ValueError, OverflowError, InvalidId):
        position = None
    # The decoder ignores what is not its alphabet, so only the way back shows that all was read.
    if position is None or cursor_of(position) != cursor:
        raise ValueError("must come from a Link header")
    return position
