"""The page to look at first."""

from __future__ import annotations

from dataclasses import replace

from tools.dashboards.model import Dashboard, Kind, Panel, Query, Row, Variable
from tools.dashboards.processes import CHRONOS, WHO

JOB_TYPE = Variable("job_type", "Job type", "label_values(chronos:jobs_due, job_type)")


def lag_lines(title: str, shows: str, metric: str, normal: str, alerts: tuple[str, ...]) -> Panel:
    """Three quantiles of a lag, from its recording rules."""
    return Panel(
        title,
        shows,
        normal,
        "s",
        [Query(f"{metric}:{quantile}", quantile) for quantile in ("p50", "p95", "p99")],
        limits=(1, 10),
        alerts=alerts,
    )


START_LAG = lag_lines(
    "Start lag",
    "From due to the start of the handler, of attempts that started in the last 5 minutes.",
    "chronos:start_lag_seconds",
    "below 0.1 s while executors have room; it grows when there are too few of them.",
    ("StartLag",),
)
DISPATCH_LAG = lag_lines(
    "Dispatch lag",
    "From due to the message in Kafka, of jobs dispatched in the last 5 minutes.",
    "chronos:dispatch_lag_seconds",
    "below 0.1 s. Above it, and the leader lives: executors are full, so jobs are held back.",
    ("DispatchLag",),
)
DUE = Panel(
    "Due and still waiting",
    "Pending jobs whose time has come, by type. Counted up to 10,000 of each.",
    "near 0; after a burst it falls steadily. Growing: too few executors of that type.",
    "short",
    (Query('chronos:jobs_due{job_type=~"$job_type"}', "{{job_type}}"),),
    alerts=("BacklogWithoutExecutor", "Backlog", "BacklogForLong"),
)
LONGEST_DUE = Panel(
    "The longest wait",
    "How long the job that waits longest is due, by type.",
    "a few seconds at most. High where little waits: high priorities overtake it for ever.",
    "s",
    (Query('chronos:oldest_due_seconds{job_type=~"$job_type"}', "{{job_type}}"),),
    limits=(30, 300),
)
UNSERVED = Panel(
    "Due, and no executor serves it",
    "Jobs that are due or queued, of types without a live executor.",
    "no line.",
    "short",
    (Query('chronos:unserved{job_type=~"$job_type"}', "{{job_type}}"),),
    empty_because="every type with due jobs has an executor.",
    alerts=("BacklogWithoutExecutor",),
)
BY_STATUS = Panel(
    "Jobs in flight",
    "Jobs queued (message sent), claimed (held by an executor) and running.",
    "queued is a small part of the executors' capacity. Many queued for long: executors do not"
    " get the messages. Many claimed: handlers are slower than before.",
    "short",
    (
        Query(
            f'max by (status) (jobs_by_status{{{CHRONOS}, status=~"queued|claimed|running"}})',
            "{{status}}",
        ),
    ),
    stacked=True,
)
DEAD = Panel(
    "Dead letters",
    "Jobs that used up their attempts, and templates that cannot fire. Counted up to 100,000.",
    "level. Growing: read the newest error on the page of dead letters.",
    "short",
    (Query("chronos:dead_letters", "dead letters"),),
    alerts=("DeadLettersGrow",),
)
FAILURE_RATIO = Panel(
    "Share of attempts that fail",
    "Of the attempts that ended in the last 5 minutes, by type.",
    "what the targets of the type usually do; a retry is no loss. All types at once: look at"
    " MongoDB, the network, the last release.",
    "percentunit",
    (Query('chronos:failure_ratio:rate5m{job_type=~"$job_type"}', "{{job_type}}"),),
    limits=(0.05, 0.2),
    highest=1,
    alerts=("FailureRatio",),
)
NOT_COMPLETED = Panel(
    "Attempts that did not complete",
    "Ended attempts a second, by result: failed, timed_out, lost (executor gone), snoozed,"
    " handed_back (executor shut down), cancelled.",
    "lost: 0. handed_back: only while executors are replaced.",
    "suffix: attempts/s",
    (
        Query(
            'sum by (result) (chronos:attempts:rate1m{job_type=~"$job_type", result!="completed"})',
            "{{result}}",
        ),
    ),
)
RECOVERED = Panel(
    "Taken back by the reaper",
    "Jobs, by what had become of them. queued: the message was lost, or nobody serves the type."
    " claimed, running: the executor died. dlq: the dead letter was announced late.",
    "nothing; a few after an executor was killed.",
    "short",
    (
        Query(
            "sum by (sweep) (increase(reaper_recovered_jobs_total"
            f"{{{CHRONOS}}}[$__rate_interval]))",
            "{{sweep}}",
        ),
    ),
    alerts=("LeaseLosses", "LostMessages"),
)
CRON = Panel(
    "Templates",
    "Occurrences in the last minutes: runs spawned, missed (passed without a run), skipped (an"
    " earlier run was live), duplicates (spawned before), and templates dead-lettered as invalid.",
    "spawned as planned; missed and invalid 0. Skipped belongs to overlap `skip`, some"
    " duplicates to a change of leader.",
    "short",
    tuple(
        Query(f"sum(increase(scheduler_cron_{name}_total{{{CHRONOS}}}[$__rate_interval]))", name)
        for name in ("spawned", "missed", "skipped", "invalid", "duplicates")
    ),
    alerts=("CronInvalid", "CronMissed"),
)
LEADERS = Panel(
    "Leader",
    "Schedulers that lead. Without one nothing is dispatched (with fan-out: no template fires).",
    "one. None for some seconds while the lead changes.",
    "short",
    (Query(f"sum(scheduler_is_leader{{{CHRONOS}}}) or vector(0)", "leaders"),),
    kind=Kind.STAT,
    width=6,
    limits=(1,),
    high_is_good=True,
    words={0: "nobody leads", 1: "one leads", 2: "two lead"},
    alerts=("NoLeader", "TwoLeaders"),
)
SATURATION = Panel(
    "How full the executors are",
    "Jobs that executors hold, as a share of what they can hold: all executors of each type, and"
    " the fullest one.",
    "below 0.8. At 1 for long: jobs wait in MongoDB; add executors or concurrency. One of several"
    " at 1: its partitions get more than others.",
    "percentunit",
    (
        Query('chronos:fullness{job_type=~"$job_type"}', "{{job_type}}"),
        Query("chronos:fullest_executor", "the fullest process"),
    ),
    limits=(0.8, 0.9),
    highest=1,
    alerts=("Saturation",),
)
SERVING = Panel(
    "Executors of each type",
    "Live executors that serve a type, as the reaper counts them.",
    "what is deployed; at least 1 of each type that has jobs.",
    "short",
    (Query('chronos:executors_serving{job_type=~"$job_type"}', "{{job_type}}"),),
)

OVERVIEW = Dashboard(
    "overview",
    "Chronos: overview",
    "Is work late, is it failing, where is it stuck, who is doing it.",
    (
        Row(
            "Is work late?",
            (
                Panel(
                    "Start lag, p95",
                    "From due to the start of the handler: 19 of 20 attempts start sooner.",
                    "below 1 s; odd from 1 s, bad from 10 s.",
                    "s",
                    (Query("chronos:start_lag_seconds:p95", "p95"),),
                    kind=Kind.STAT,
                    width=6,
                    limits=(1, 10),
                    alerts=("StartLag",),
                ),
                Panel(
                    "Due now",
                    "Pending jobs of all chosen types whose time has come.",
                    "below 100; a burst may be more for a while.",
                    "short",
                    (
                        Query(
                            'sum(chronos:jobs_due{job_type=~"$job_type"})',
                            "due",
                        ),
                    ),
                    kind=Kind.STAT,
                    width=6,
                    limits=(100, 10_000),
                    alerts=("Backlog",),
                ),
                Panel(
                    "The longest wait now",
                    "How long the job that waits longest is due.",
                    "below 30 s; bad from 5 minutes.",
                    "s",
                    (Query('max(chronos:oldest_due_seconds{job_type=~"$job_type"})', "longest"),),
                    kind=Kind.STAT,
                    width=6,
                    limits=(30, 300),
                ),
                Panel(
                    "Throughput",
                    "Attempts that ended, a second.",
                    "as usual for the hour. 0 while jobs are due: look at the leader.",
                    "suffix: attempts/s",
                    (Query("chronos:throughput:rate1m", "ended"),),
                    kind=Kind.STAT,
                    width=6,
                ),
                START_LAG,
                DUE,
                LONGEST_DUE,
            ),
        ),
        Row(
            "Is it failing?",
            (
                FAILURE_RATIO,
                NOT_COMPLETED,
                DEAD,
                Panel(
                    "Alerts",
                    "Alerts that fire, or are about to (pending), without Watchdog, which always"
                    " does. The runbook says what to do.",
                    "none.",
                    "short",
                    (
                        Query(
                            'sum by (alertname, severity, alertstate) (ALERTS{severity!="none"})',
                            "",
                        ),
                    ),
                    alerts=("Watchdog",),
                    kind=Kind.TABLE,
                    width=12,
                    empty_because="no alert fires.",
                ),
                Panel(
                    "What fails and is repeated",
                    "Calls a second that ended with MongoDB or Kafka unavailable, and steps that"
                    " failed by anything else, by role.",
                    "0; some at a failover of MongoDB, which lasts seconds.",
                    "suffix: /s",
                    (
                        Query(
                            "sum by (role) (rate(store_errors_total"
                            f"{{{CHRONOS}}}[$__rate_interval]))",
                            "MongoDB, {{role}}",
                        ),
                        Query(
                            "sum by (role) (rate(broker_errors_total"
                            f"{{{CHRONOS}}}[$__rate_interval]))",
                            "Kafka, {{role}}",
                        ),
                        Query(
                            "sum by (role) (rate(step_errors_total"
                            f"{{{CHRONOS}}}[$__rate_interval]))",
                            "steps, {{role}}",
                        ),
                    ),
                    width=12,
                    limits=(0.05,),
                    alerts=("StoreErrors", "BrokerErrors", "StepErrors"),
                ),
            ),
        ),
        Row(
            "Where is it stuck?",
            (DISPATCH_LAG, BY_STATUS, SATURATION, UNSERVED, RECOVERED, CRON),
        ),
        Row(
            WHO,
            (
                LEADERS,
                Panel(
                    "Processes that answer",
                    "Processes of each role that Prometheus could scrape.",
                    "as many as are deployed; none of a role that is deployed is bad.",
                    "short",
                    (Query(f"sum by (role) (up{{{CHRONOS}}})", "{{role}}"),),
                    kind=Kind.STAT,
                    width=18,
                    limits=(1,),
                    high_is_good=True,
                    alerts=("TargetDown", "NoApi", "NoReaper"),
                ),
                Panel(
                    "Throughput by type",
                    "Attempts that ended, a second.",
                    "as usual for the hour.",
                    "suffix: attempts/s",
                    (
                        Query(
                            'sum by (job_type) (chronos:attempts:rate1m{job_type=~"$job_type"})',
                            "{{job_type}}",
                        ),
                    ),
                    width=12,
                    stacked=True,
                ),
                replace(SERVING, width=12),
                Panel(
                    "Versions",
                    "Processes of each version of Chronos.",
                    "one version; two while an upgrade rolls through.",
                    "short",
                    (
                        Query(
                            f"count by (version) (chronos_build_info{{{CHRONOS}}})",
                            "{{version}}",
                        ),
                    ),
                    width=12,
                    stacked=True,
                ),
                Panel(
                    "Memory by role",
                    "Resident memory of all processes of a role. An API of several workers does"
                    " not tell it.",
                    "level; for its height see the sizing in operations.md.",
                    "bytes",
                    (
                        Query(
                            f"sum by (role) (process_resident_memory_bytes{{{CHRONOS}}})",
                            "{{role}}",
                        ),
                    ),
                    width=12,
                ),
            ),
        ),
    ),
    (JOB_TYPE,),
)
