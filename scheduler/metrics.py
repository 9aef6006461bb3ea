"""What the scheduler counts."""

from prometheus_client import Counter, Gauge, Histogram

from jobs.metrics import MILLISECONDS_TO_HOURS

TICK_SECONDS = Histogram(
    "scheduler_tick_seconds", "Time of one step.", buckets=MILLISECONDS_TO_HOURS
)
CLAIMED = Counter("scheduler_jobs_claimed", "Jobs moved from pending to queued.", ["job_type"])
DISPATCH_ERRORS = Counter("scheduler_dispatch_errors", "Messages not known to have reached Kafka.")
DISPATCH_LAG_SECONDS = Histogram(
    "scheduler_dispatch_lag_seconds",
    "From due to dispatched.",
    ["job_type"],
    buckets=MILLISECONDS_TO_HOURS,
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
FANS_OUT = Gauge(
    "scheduler_fans_out", "1 where fan-out workers are to dispatch (DISPATCH), else 0."
)
TRIGGERS_SENT = Counter(
    "scheduler_fanout_triggers_sent",
    "Triggers that the leader sent to fan-out workers.",
    ["result"],
)
TRIGGERS_RECEIVED = Counter(
    "scheduler_fanout_triggers_received", "Triggers that a fan-out worker received.", ["result"]
)
SHARDS_OWNED = Gauge("scheduler_fanout_shards", "Shards that a fan-out worker owns.")
