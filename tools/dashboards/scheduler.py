"""The page of the schedulers: dispatch, templates, the lead."""

from __future__ import annotations

from tools.dashboards.model import Dashboard, Kind, Panel, Query, Row
from tools.dashboards.overview import (
    CRON,
    DISPATCH_LAG,
    DUE,
    JOB_TYPE,
    LEADERS,
    LONGEST_DUE,
    UNSERVED,
)
from tools.dashboards.processes import CHRONOS, instances, last_row, of_role, server_errors

ROLE = "scheduler"
_CHOSEN = of_role(ROLE)


def step_time(chosen: str) -> Panel:
    """How long the steps of the dispatch take."""
    buckets = f"rate(scheduler_tick_seconds_bucket{{{chosen}}}[$__rate_interval])"
    return Panel(
        "Time of one step",
        "A step looks for due templates and jobs, and dispatches a batch.",
        "milliseconds with little due, some 100 ms with full batches. Above 1 s: MongoDB is"
        " slow, or CLAIM_BATCH too large. No line of the leader: a step does not end.",
        "s",
        [
            Query(f"histogram_quantile({q}, sum by (le) ({buckets}))", f"p{100 * q:g}")
            for q in (0.5, 0.99)
        ],
        limits=(1, 5),
        alerts=("StepHangs",),
    )


def dispatch_errors(chosen: str) -> Panel:
    """Messages that Kafka did not confirm."""
    return Panel(
        "Messages not confirmed",
        "Messages a second that are not known to have reached Kafka. Their jobs went back to"
        " pending and are tried again.",
        "0. Rising: Kafka is away, or a topic is missing.",
        "suffix: messages/s",
        (
            Query(
                "sum by (instance) (rate(scheduler_dispatch_errors_total"
                f"{{{chosen}}}[$__rate_interval]))",
            ),
        ),
        limits=(0.1,),
        alerts=("BrokerErrors",),
    )


SCHEDULER = Dashboard(
    ROLE,
    "Chronos: scheduler",
    "Whether due jobs are dispatched, templates fire, and one scheduler leads.",
    (
        Row("Is work late?", (DISPATCH_LAG, DUE, LONGEST_DUE)),
        Row("Is it failing?", (dispatch_errors(_CHOSEN), server_errors(ROLE), CRON)),
        Row(
            "Where is it stuck?",
            (
                step_time(_CHOSEN),
                Panel(
                    "Dispatched",
                    "Jobs a second that were moved to queued and sent, by type; by the leader,"
                    " or with fan-out by its workers.",
                    "follows what comes due. 0 with due jobs and free executors: nobody leads.",
                    "suffix: jobs/s",
                    (
                        Query(
                            "sum by (job_type) (rate(scheduler_jobs_claimed_total"
                            f'{{{CHRONOS}, job_type=~"$job_type"}}[$__rate_interval]))',
                            "{{job_type}}",
                        ),
                    ),
                    stacked=True,
                ),
                UNSERVED,
            ),
        ),
        last_row(
            ROLE,
            LEADERS,
            Panel(
                "Changes of the lead",
                "How often a scheduler began or ceased to lead, in the last hour.",
                "0 between releases. Many: etcd (or Redis) is slow, or LEADER_TTL too short.",
                "short",
                (Query(f"sum(changes(scheduler_is_leader{{{CHRONOS}}}[1h]))", "changes"),),
                kind=Kind.STAT,
                width=6,
                limits=(2, 6),
            ),
            Panel(
                "Who leads",
                "1 is the leader, 0 a standby.",
                "one process at 1.",
                "short",
                (Query(f"scheduler_is_leader{{{_CHOSEN}}}"),),
                width=12,
                highest=1,
            ),
        ),
    ),
    (instances(ROLE), JOB_TYPE),
)
