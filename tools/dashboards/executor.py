"""The page of the executors: handlers and deliveries."""

from __future__ import annotations

from dataclasses import replace

from tools.dashboards.model import Dashboard, Kind, Panel, Query, Row
from tools.dashboards.overview import (
    FAILURE_RATIO,
    JOB_TYPE,
    NOT_COMPLETED,
    SERVING,
    START_LAG,
)
from tools.dashboards.processes import instances, last_row, of_role, server_errors

ROLE = "executor"
_CHOSEN = of_role(ROLE)
_TYPES = _CHOSEN + ', job_type=~"$job_type"'


def _quantile(quantile: float, metric: str) -> str:
    buckets = f"rate({metric}_bucket{{{_TYPES}}}[$__rate_interval])"
    return f"histogram_quantile({quantile}, sum by (le, job_type) ({buckets}))"


EXECUTOR = Dashboard(
    ROLE,
    "Chronos: executors",
    "Whether handlers start in time and end well, what they wait for, and which process runs them.",
    (
        Row(
            "Is work late?",
            (
                START_LAG,
                Panel(
                    "Start lag of each type, p95",
                    "From due to the start of the handler.",
                    "below 0.1 s. One type only: it has too few executors.",
                    "s",
                    (Query(_quantile(0.95, "executor_start_lag_seconds"), "{{job_type}}"),),
                    limits=(1, 10),
                    alerts=("StartLag",),
                ),
                Panel(
                    "Start lags of all attempts",
                    "How many started how late; darker is more.",
                    "one dark band at the bottom. Two bands: some executors are full, others not.",
                    "short",
                    (
                        Query(
                            "sum by (le) (increase(executor_start_lag_seconds_bucket"
                            f"{{{_TYPES}}}[$__rate_interval]))",
                            "{{le}}",
                        ),
                    ),
                    kind=Kind.HEATMAP,
                ),
            ),
        ),
        Row(
            "Is it failing?",
            (
                FAILURE_RATIO,
                NOT_COMPLETED,
                Panel(
                    "Claims lost",
                    "Claims that were taken away while the executor lived: cancelled by a person,"
                    " or the lease ended.",
                    "what people cancel. Otherwise executors are cut off from MongoDB for longer"
                    " than CLAIM_TIMEOUT.",
                    "short",
                    (
                        Query(
                            "sum by (instance) (increase(executor_lost_claims_total"
                            f"{{{_CHOSEN}}}[$__rate_interval]))",
                        ),
                    ),
                    alerts=("LeaseLosses",),
                ),
                server_errors(ROLE),
                Panel(
                    "Handlers that do not stop",
                    "Handlers whose end was decided while they ran (timed out, cancelled). Each"
                    " keeps its thread until it returns.",
                    "nothing. Else a handler ignores `context.cancelled`.",
                    "short",
                    (
                        Query(
                            "sum by (job_type) (increase(executor_abandoned_handlers_total"
                            f"{{{_TYPES}}}[$__rate_interval]))",
                            "{{job_type}}",
                        ),
                    ),
                    alerts=("AbandonedHandlers",),
                ),
                Panel(
                    "Log lines not kept",
                    "limit: more than an attempt may log. backlog: MongoDB did not take them in"
                    " time.",
                    "nothing.",
                    "suffix: lines/s",
                    (
                        Query(
                            "sum by (reason) (rate(executor_dropped_log_lines_total"
                            f"{{{_CHOSEN}}}[$__rate_interval]))",
                            "{{reason}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Where is it stuck?",
            (
                Panel(
                    "Held, and room for",
                    "Jobs that each process holds, and how many it can. Prefetch counts, so the"
                    " room grows with fast handlers. 0 while it drains.",
                    "held below room. Equal for long: the process is full.",
                    "short",
                    (
                        Query(
                            f"executor_held{{{_CHOSEN}}}",
                            "held, {{pool}} {{instance}}",
                        ),
                        Query(
                            f"executor_capacity{{{_CHOSEN}}}",
                            "room, {{pool}} {{instance}}",
                        ),
                    ),
                    alerts=("Saturation",),
                    width=12,
                ),
                Panel(
                    "Time in the handler, p95",
                    "Of each type; for deliveries until the target has answered.",
                    "as before the last release. Longer: the target or the handler is slower,"
                    " and the same executors do less.",
                    "s",
                    (Query(_quantile(0.95, "executor_handler_seconds"), "{{job_type}}"),),
                    width=12,
                ),
                Panel(
                    "Running",
                    "Jobs that executors run, by type.",
                    "below the slots that serve the type.",
                    "short",
                    (
                        Query(
                            f"sum by (job_type) (executor_busy{{{_TYPES}}})",
                            "{{job_type}}",
                        ),
                    ),
                    stacked=True,
                    width=12,
                ),
                Panel(
                    "Messages without a job",
                    "junk: names no job. not_queued: the job was claimed, cancelled or taken back"
                    " before its message came.",
                    "some not_queued after a rebalance or a restart of the leader; no junk.",
                    "suffix: messages/s",
                    (
                        Query(
                            "sum by (reason) (rate(executor_dropped_messages_total"
                            f"{{{_CHOSEN}}}[$__rate_interval]))",
                            "{{reason}}",
                        ),
                    ),
                    width=12,
                ),
            ),
        ),
        last_row(
            ROLE,
            Panel(
                "Attempts by process",
                "Ended attempts a second.",
                "shared like the partitions. A process at 0: more executors than partitions, or"
                " it cannot reach Kafka.",
                "suffix: attempts/s",
                (
                    Query(
                        "sum by (instance) (rate(executor_jobs_total"
                        f"{{{_TYPES}}}[$__rate_interval]))",
                    ),
                ),
                width=12,
                stacked=True,
            ),
            replace(SERVING, width=12),
        ),
    ),
    (instances(ROLE), JOB_TYPE),
)
