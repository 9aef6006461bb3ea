"""How long MongoDB is waited for, and the driver's outages as `StoreUnavailable`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta

import pymongo
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    ExecutionTimeout,
    OperationFailure,
    WriteConcernError,
)

from jobs.errors import StoreRefused, StoreUnavailable
from jobs.metrics import STORE_ERRORS

# Shutdown, step-down and election answers that pymongo leaves as OperationFailure, cursors and
# queries that did not outlive them, and streams whose place in the oplog is gone; numbers from
# MongoDB's error_codes.yml.
_PASSING_CODES = frozenset(
    {6, 7, 43, 89, 91, 112, 133, 175, 189, 237, 262, 280, 286, 9001, 10107, 11600, 11602, 13435}
)
# AuthenticationFailed, Unauthorized, and MongoDB Atlas's word for both.
_REFUSALS = frozenset({13, 18, 8000})
# What pymongo appends to why a server does not answer: its own time-outs, and all that it knows.
_APPENDED = re.compile(r" \(configured timeouts: [^)]*\)|, Timeout: .*", re.DOTALL)
_KNOWN_SERVER = re.compile(r"<ServerDescription \('([^']*)', (\d+)\)")


def _reason(error: ConnectionFailure) -> str:
    """Why nothing answers, with the hosts that were asked."""
    text = str(error)
    reason = _APPENDED.sub("", text)
    unnamed = [
        host for host in map(":".join, _KNOWN_SERVER.findall(text)) if f"{host}:" not in reason
    ]
    return f"{', '.join(unnamed)}: {reason}" if unnamed else reason


def _remedy(reason: str) -> str:
    if "SSL" in reason or "certificate" in reason:
        return "Check tls, tlsCAFile and tlsCertificateKeyFile in MONGO_URI."
    if "connection closed" in reason:
        return "Check MONGO_URI: what hangs up may demand tls=true, or a certificate."
    return "Start it, or bring it back; else check MONGO_URI."


def _words(error: OperationFailure) -> str:
    # Without all that pymongo knows of the answer.
    return str(error).partition(", full error")[0].rstrip(".")


def is_outage(error: OperationFailure) -> bool:
    """Whether an answer only says that MongoDB is shutting down or changing its primary."""
    if isinstance(error, ExecutionTimeout | WriteConcernError) or error.code in _PASSING_CODES:
        return True
    if isinstance(error, BulkWriteError):
        details = error.details
        return bool(details.get("writeConcernErrors")) or any(
            item.get("code") in _PASSING_CODES for item in details.get("writeErrors", ())
        )
    return error.has_error_label("RetryableWriteError")


def within(limit: timedelta) -> AbstractContextManager[None]:
    """A block that waits for MongoDB no longer than this, however many questions it asks.

    Holds for all clients of the process, Django's too, and within a block that has less time left
    changes nothing.
    """
    return pymongo.timeout(limit.total_seconds())


@contextmanager
def outages_named() -> Iterator[None]:
    """Raise `StoreUnavailable` where MongoDB is away, `StoreRefused` where it lets us not in.

    Other errors are bugs and pass through. Each is counted once, also where one such method calls
    another.

    Also used as a decorator on every method that talks to MongoDB.
    """
    try:
        yield
    except ConnectionFailure as exc:
        STORE_ERRORS.inc()
        reason = _reason(exc)
        raise StoreUnavailable(f"MongoDB does not answer ({reason}). {_remedy(reason)}") from exc
    except OperationFailure as exc:
        if exc.code in _REFUSALS:
            STORE_ERRORS.inc()
            raise StoreRefused(
                f"MongoDB refuses this client ({_words(exc)}). Check the user, the password and "
                "authSource in MONGO_URI, and the user's rights."
            ) from exc
        if not is_outage(exc):
            raise
        STORE_ERRORS.inc()
        raise StoreUnavailable(f"MongoDB is changing its primary ({exc}).") from exc
