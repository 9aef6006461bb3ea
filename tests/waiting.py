"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

T = TypeVar("T")

DEADLINE: Final = timedelta(seconds=30)
_LOOK_SECONDS: Final = 0.02


def wait_for(look: Callable[[], T], *, deadline: timedelta = DEADLINE) -> T:
    """The first true answer of `look`. Fails with the last answer when none came in time."""
    give_up_at = time.monotonic() + deadline.total_seconds()
    while not (answer := look()):
        assert time.monotonic() < give_up_at, f"still {answer!r} after {deadline}"
        time.sleep(_LOOK_SECONDS)
    return answer
