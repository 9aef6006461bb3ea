"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

T = TypeVar("T")

DEADLINE: Final = timedelta(seconds=60)
"""Guards against waiting for ever; a machine that is slow and busy stays well below it."""
ANSWER_SECONDS: Final = 30
"""The same for one HTTP request, of which httpx expects to be answered within 5 s."""
_LOOK_SECONDS: Final = 0.02


def wait_for(
    look: Callable[[], T],
    *,
    deadline: timedelta = DEADLINE,
    show: Callable[[], object] | None = None,
) -> T:
    """The first true answer of `look`.

    Fails when none came in time, with what `show` tells, or else with the last answer.
    """
    give_up_at = time.monotonic() + deadline.total_seconds()
    while not (answer := look()):
        if time.monotonic() > give_up_at:
            raise AssertionError(f"after {deadline} still {show() if show else answer!r}")
        time.sleep(_LOOK_SECONDS)
    return answer


def assert_takes_at_most(
    limit: timedelta, take: Callable[[], timedelta], *, tries: int = 3
) -> None:
    """What is promised to be done within a time is, at one of some tries.

    A machine that stalls explains a slow try; it does not explain three.

    Args:
        limit: what is promised.
        take: does it once, and tells how long it took.
        tries: after which it is slow.
    """
    took: list[timedelta] = []
    while len(took) < tries:
        took.append(take())
        if took[-1] <= limit:
            return
    raise AssertionError(f"took {', '.join(map(str, took))}; {limit} is promised")
