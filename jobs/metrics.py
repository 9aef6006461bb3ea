"""What all roles measure alike."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

from chronos_site import VERSION

MILLISECONDS_TO_HOURS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400),
)
"""Buckets in seconds for times that may be anything: a no-op's, a night's backlog's."""

STORE_ERRORS: Final = Counter("store_errors", "Calls that ended with MongoDB unavailable.")
BROKER_ERRORS: Final = Counter("broker_errors", "Calls that ended with Kafka unavailable.")
STEP_ERRORS: Final = Counter(
    "step_errors", "Steps that failed by anything but a server's absence, and are repeated."
)

# Of several processes of the API each says the same.
_BUILD: Final = Gauge(
    "chronos_build_info", "1; the version is its label.", ["version"], multiprocess_mode="max"
)
_BUILD.labels(VERSION).set(1)
STARTED: Final = Gauge(
    "chronos_start_time_seconds",
    "When the process began, in seconds since 1970; of several API workers the latest.",
    multiprocess_mode="max",
)
STARTED.set_to_current_time()
