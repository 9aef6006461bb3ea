"""What is asked of the processes of every role: do they live, what do they use, what fails them."""

from __future__ import annotations

from tools.dashboards.model import Kind, Panel, Query, Row, Variable

CHRONOS = 'job="chronos"'
"""The label of all that `deploy/prometheus` scrapes of us."""
WHO = "Who is doing it?"


def instances(role: str) -> Variable:
    """A choice among the processes of a role."""
    query = f'label_values(up{{{CHRONOS}, role="{role}"}}, instance)'
    return Variable("instance", "Process", query)


def of_role(role: str) -> str:
    """The labels that choose a role's processes, and among them those that were chosen."""
    return f'{CHRONOS}, role="{role}", instance=~"$instance"'


def processes(role: str) -> tuple[Panel, ...]:
    """The last panels of a role's dashboard."""
    chosen = of_role(role)
    return (
        Panel(
            "Processes that answer",
            f"Processes of the role {role} that Prometheus could scrape.",
            "as many as are deployed; at least 1.",
            "short",
            (Query(f'sum(up{{{CHRONOS}, role="{role}"}})', "answer"),),
            alerts=("TargetDown",),
            kind=Kind.STAT,
            width=6,
            limits=(1,),
            high_is_good=True,
        ),
        Panel(
            "Started again",
            "Starts of the processes in the last hour: an address whose process is younger, or"
            " the latest of its API workers.",
            "0 between releases; more means crashes, or a supervisor that loses patience.",
            "short",
            (Query(f"sum(changes(chronos_start_time_seconds{{{chosen}}}[1h]))", "starts"),),
            kind=Kind.STAT,
            width=6,
            limits=(1, 3),
        ),
        Panel(
            "Memory",
            "Resident memory of each process. An API of several workers does not tell it.",
            "level after the first minutes; for its height see the sizing in operations.md.",
            "bytes",
            (Query(f"process_resident_memory_bytes{{{chosen}}}"),),
            width=6,
        ),
        Panel(
            "Processor",
            "Cores that each process uses. An API of several workers does not tell it.",
            "well below 1: a process of Python runs on one core.",
            "short",
            (Query(f"rate(process_cpu_seconds_total{{{chosen}}}[$__rate_interval])"),),
            width=6,
            limits=(0.8, 0.95),
        ),
    )


def server_errors(role: str, *, kafka: bool = True) -> Panel:
    """What failed: calls to MongoDB and Kafka, and other steps."""
    chosen = of_role(role)
    mongo = f"sum(rate(store_errors_total{{{chosen}}}[$__rate_interval]))"
    queries = [Query(mongo, "MongoDB")]
    if kafka:
        broker = f"sum(rate(broker_errors_total{{{chosen}}}[$__rate_interval]))"
        queries.append(Query(broker, "Kafka"))
    queries.append(Query(f"sum(rate(step_errors_total{{{chosen}}}[$__rate_interval]))", "steps"))
    return Panel(
        "What fails and is repeated",
        "Calls a second that ended with MongoDB" + (" or Kafka" if kafka else "") + " unavailable,"
        " and steps that failed by anything else.",
        "0; some at a failover of MongoDB, which lasts seconds.",
        "suffix: /s",
        queries,
        limits=(0.05,),
        alerts=("StoreErrors", *(("BrokerErrors",) if kafka else ()), "StepErrors"),
    )


def last_row(role: str, *panels: Panel) -> Row:
    """Who does it: what only this role has, then what all have."""
    return Row(WHO, (*panels, *processes(role)))
