"""What the reaper counts."""

from prometheus_client import Counter

RECOVERED = Counter(
    "reaper_recovered_jobs",
    "Jobs taken back, by sweep: queued (message lost), claimed (executor gone before the start),"
    " running (executor gone), and dead letters announced late.",
    ["sweep"],
)
