"""Waiting for what there is a limited number of, but not for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Busy(Exception):
    """All were in use all the time. Nothing was sent."""


@asynccontextmanager
async def place(free: asyncio.Semaphore, patience: float) -> AsyncIterator[None]:
    """Have one of them for the block.

    Args:
        free: how many there are.
        patience: seconds to wait.

    Raises:
        Busy: none was free in that time.
    """
    try:
        async with asyncio.timeout(patience):
            await free.acquire()
    except TimeoutError as exc:
        raise Busy from exc
    try:
        yield
    finally:
        free.release()
