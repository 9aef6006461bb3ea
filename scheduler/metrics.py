"""What the scheduler counts."""

from prometheus_client import Counter, Gauge, Histogram

_LAG = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 60, 300, 1800, 3600)

TICK_SECONDS = Histogram("scheduler_tick_seconds", "Time of one step.", buckets=_LAG)
CLAIMED = Counter("scheduler_jobs_claimed", "Jobs moved from pending to queued.", ["job_type"])
DISPATCH_ERRORS = Counter("scheduler_dispatch_errors", "Messages not known to have reached Kafka.")
DISPATCH_LAG_SECONDS = Histogram(
    "scheduler_dispatch_lag_seconds", "From due to dispatched.", buckets=_LAG
)
CRON_SPAWNED = Counter("scheduler_cron_spawned", "Runs spawned by templates.")
CRON_DUPLICATE = Counter(
    "scheduler_cron_duplicates", "Occurrences that had been spawned already: nothing done."
)
CRON_MISSED = Counter("scheduler_cron_missed", "Occurrences that passed without a run.")
CRON_SKIPPED = Counter(
    "scheduler_cron_skipped", "Occurrences not run because an earlier run was live."
)
CRON_INVALID = Counter("scheduler_cron_invalid", "Templates dead-lettered: they cannot be fired.")
IS_LEADER = Gauge("scheduler_is_leader", "1 on the leader, 0 on a standby.")
TRIGGERS_SENT = Counter(
    "scheduler_fanout_triggers_sent",
    "Triggers that the leader sent to fan-out workers.",
    ["result"],
)
TRIGGERS_RECEIVED = Counter(
    "scheduler_fanout_triggers_received", "Triggers that a fan-out worker received.", ["result"]
)
SHARDS_OWNED = Gauge("scheduler_fanout_shards", "Shards that a fan-out worker owns.")
