"""What the reaper counts."""

from prometheus_client import Counter, Gauge

RECOVERED = Counter(
    "reaper_recovered_jobs",
    "Jobs taken back, by sweep: queued (message lost), claimed (executor gone before the start),"
    " running (executor gone), and dead letters announced late.",
    ["sweep"],
)
JOBS_BY_STATUS = Gauge(
    "jobs_by_status",
    "Jobs pending, in flight and dead, counted at each round up to 100,000; without templates.",
    ["status"],
)
