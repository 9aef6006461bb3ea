"""Where a job comes from: the request that made it, and the trace that it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from secrets import token_hex
from typing import Final

REQUEST_ID: Final = "X-Request-Id"
"""The header that carries it, to us and from us."""
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._~:/+=@-]{1,128}")


@dataclass(frozen=True, slots=True)
class Origin:
    """What is passed on from a request to its jobs, and from a job to what its handler asks for."""

    request_id: str | None = None
    traceparent: str | None = None
    """W3C Trace Context; see `jobs.tracing.traceparent`."""


UNKNOWN: Final = Origin()
_current: ContextVar[Origin] = ContextVar("origin", default=UNKNOWN)


def current() -> Origin:
    """On whose behalf this thread or asyncio task works."""
    return _current.get()


@contextmanager
def acting_for(origin: Origin) -> Iterator[None]:
    """Work on behalf of a request or job, to the end of the block."""
    token = _current.set(origin)
    try:
        yield
    finally:
        _current.reset(token)


def request_id_from(sent: str | None) -> str:
    """The id of a request: what its client sent, where that can be kept; else a new one.

    Up to 128 characters that need no care in a log, a header or a shell.
    """
    return sent if sent is not None and _REQUEST_ID.fullmatch(sent) else token_hex(8)
