"""Writes to several documents that happen together or not at all."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect, ConfigurationError, OperationFailure

T = TypeVar("T")

# About two seconds in all, for many who write to the same few documents.
_TRIES: Final = 20
_PAUSE_SECONDS: Final = 0.01
_LONGEST_SECONDS: Final = 0.2


def in_transaction(collection: Collection[dict[str, Any]], work: Callable[[ClientSession], T]) -> T:
    """Do what `work` does as one step; from the start when another write came in between.

    At 20 times the cost of plain writes (docs/decisions/0024), so only for what is rare.

    Args:
        collection: one of those that are written; its write concern holds.
        work: passes the session to each call of the driver. May be called several times.
    """
    tries = 1
    with collection.database.client.start_session() as session:
        while True:
            try:
                with session.start_transaction(write_concern=collection.write_concern):
                    return work(session)
            except ConfigurationError as exc:
                # A member that has just started knows of no sessions yet.
                raise AutoReconnect(str(exc)) from exc
            except OperationFailure as exc:
                # An outage is not waited for here: callers know how long they can.
                if tries == _TRIES or not exc.has_error_label("TransientTransactionError"):
                    raise
            time.sleep(min(_PAUSE_SECONDS * 2**tries, _LONGEST_SECONDS) * random.random())  # noqa: S311
            tries += 1
