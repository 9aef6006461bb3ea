"""What an executor counts."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram

from jobs.lifecycle import Outcome
from jobs.metrics import MILLISECONDS_TO_HOURS

JOBS = Counter("executor_jobs", "Attempts ended, by how.", ["job_type", "result"])
HANDLER_SECONDS = Histogram(
    "executor_handler_seconds",
    "Time in the handler.",
    ["job_type"],
    buckets=MILLISECONDS_TO_HOURS,
)
START_LAG_SECONDS = Histogram(
    "executor_start_lag_seconds",
    "From due to handler start.",
    ["job_type"],
    buckets=MILLISECONDS_TO_HOURS,
)
DROPPED_MESSAGES = Counter(
    "executor_dropped_messages", "Messages without a job to claim, by reason.", ["reason"]
)
LOST_CLAIMS = Counter("executor_lost_claims", "Claims that ended in other hands: nothing written.")
ABANDONED = Counter(
    "executor_abandoned_handlers", "Handlers that went on after their time was up.", ["job_type"]
)
DROPPED_LOG_LINES = Counter(
    "executor_dropped_log_lines", "Lines of handlers that were not kept, by reason.", ["reason"]
)
CAPACITY = Gauge("executor_capacity", "Jobs this executor can hold at once.", ["pool"])
HELD = Gauge("executor_held", "Jobs this executor holds.", ["pool"])
BUSY = Gauge("executor_busy", "Jobs this executor runs.", ["pool", "job_type"])


def show_from_zero(job_types: Iterable[str]) -> None:
    """Show figures of these types before there are any: what appears with its first event has not
    risen, and nobody is told.
    """
    for job_type in job_types:
        ABANDONED.labels(job_type)
        HANDLER_SECONDS.labels(job_type)
        START_LAG_SECONDS.labels(job_type)
        for outcome in (Outcome.COMPLETED, Outcome.FAILED, Outcome.TIMED_OUT):
            JOBS.labels(job_type, outcome)
    for reason in ("junk", "not_queued"):
        DROPPED_MESSAGES.labels(reason)
    for reason in ("limit", "backlog"):
        DROPPED_LOG_LINES.labels(reason)
