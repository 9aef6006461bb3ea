"""What the reaper counts."""

from prometheus_client import Counter, Gauge

RECOVERED = Counter(
    "reaper_recovered_jobs",
    "Jobs taken back, by sweep: queued (message lost), claimed (executor gone before the start),"
    " running (executor gone), and dead letters announced late.",
    ["sweep"],
)
for _sweep in ("queued", "claimed", "running", "dlq"):
    # An increase is one only where there was a figure before.
    RECOVERED.labels(_sweep)
JOBS_BY_STATUS = Gauge(
    "jobs_by_status",
    "Jobs pending, in flight and dead, counted at each round up to 100,000; without templates.",
    ["status"],
)
JOBS_DUE = Gauge("jobs_due", "Pending jobs that are due, counted up to 10,000.", ["job_type"])
OLDEST_DUE_SECONDS = Gauge(
    "jobs_oldest_due_seconds",
    "For how long the longest waiting of them is due, or is there if it was submitted later;"
    " 0: none is.",
    ["job_type"],
)
JOBS_QUEUED = Gauge("jobs_queued", "Jobs on their way to an executor.", ["job_type"])
EXECUTORS_SERVING = Gauge(
    "executors_serving", "Live executors that take jobs of the type.", ["job_type"]
)
TEMPLATES_OVERDUE_SECONDS = Gauge(
    "templates_overdue_seconds",
    "For how long the longest waiting template should have fired; 0: none should have.",
)
