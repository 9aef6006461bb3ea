"""The page of the fan-out workers, where `DISPATCH` is `fanout`."""

from __future__ import annotations

from tools.dashboards.model import Dashboard, Kind, Panel, Query, Row
from tools.dashboards.overview import DISPATCH_LAG, DUE, JOB_TYPE, LONGEST_DUE
from tools.dashboards.processes import CHRONOS, instances, last_row, of_role, server_errors
from tools.dashboards.scheduler import dispatch_errors, step_time

ROLE = "fanout"
_CHOSEN = of_role(ROLE)

FANOUT = Dashboard(
    ROLE,
    "Chronos: fan-out workers",
    "Whether each shard has a worker and is looked after. Empty where DISPATCH is leader.",
    (
        Row("Is work late?", (DISPATCH_LAG, DUE, LONGEST_DUE)),
        Row(
            "Is it failing?",
            (
                dispatch_errors(_CHOSEN),
                server_errors(ROLE),
                Panel(
                    "Triggers of the leader",
                    "Triggers a minute that the leader sent, by whether Kafka confirmed them, and"
                    " that workers received: heeded, or junk.",
                    "confirmed and heeded, as many as `bucket-triggers` has partitions in each"
                    " minute that has due jobs. None for long: nobody leads. No job depends on"
                    " them.",
                    "short",
                    (
                        Query(
                            "sum by (result) (increase(scheduler_fanout_triggers_sent_total"
                            f"{{{CHRONOS}}}[5m])) / 5",
                            "sent, {{result}}",
                        ),
                        Query(
                            "sum by (result) (increase("
                            f"scheduler_fanout_triggers_received_total{{{CHRONOS}}}[5m])) / 5",
                            "received, {{result}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Where is it stuck?",
            (
                Panel(
                    "Shards without a worker",
                    "Of 256. Their due jobs are dispatched by nobody.",
                    "0; for some seconds more when a worker comes or goes.",
                    "short",
                    (Query(f"256 - sum(scheduler_fanout_shards{{{CHRONOS}}})", "shards"),),
                    kind=Kind.STAT,
                    width=8,
                    limits=(1,),
                    alerts=("ShardsWithoutOwner",),
                ),
                step_time(_CHOSEN),
                Panel(
                    "Dispatched by each worker",
                    "Jobs a second that were moved to queued and sent.",
                    "shared like the shards.",
                    "suffix: jobs/s",
                    (
                        Query(
                            "sum by (instance) (rate(scheduler_jobs_claimed_total"
                            f'{{{_CHOSEN}, job_type=~"$job_type"}}[$__rate_interval]))',
                        ),
                    ),
                    stacked=True,
                ),
            ),
        ),
        last_row(
            ROLE,
            Panel(
                "Shards of each worker",
                "Shards, 0 to 255, that each worker owns; their sum should be 256.",
                "about even. A worker at 0 is one more than `bucket-triggers` has partitions.",
                "short",
                (Query(f"scheduler_fanout_shards{{{_CHOSEN}}}"),),
                width=24,
                stacked=True,
            ),
        ),
    ),
    (instances(ROLE), JOB_TYPE),
)
