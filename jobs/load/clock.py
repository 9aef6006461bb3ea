"""The store's clock, as far as a client of the API can tell.

A load test says by its own clock when a job is due, and the system writes down by the store's when
it started: the difference of the clocks would look like latency, or hide it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

# The store's instants are cut off to whole milliseconds.
_PRECISION = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Sample:
    """A job that was created between two looks at the client's clock."""

    asked_at: datetime
    created_at: datetime
    """By the store's clock."""
    answered_at: datetime

    @property
    def roundtrip(self) -> timedelta:
        return self.answered_at - self.asked_at


def clock_offset(samples: Iterable[Sample]) -> timedelta:
    """What to add to the client's time to get the store's.

    By the quickest of the samples, as in NTP. Zero unless the clocks are known to differ: a wrong
    correction by half a roundtrip would be as large as what is measured.
    """
    best = min(samples, key=lambda sample: sample.roundtrip)
    if best.asked_at - _PRECISION <= best.created_at <= best.answered_at:
        return timedelta()
    return best.created_at - (best.asked_at + best.roundtrip / 2)
