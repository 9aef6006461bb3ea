"""The page of the reapers: what is taken back, and what they count for everybody."""

from __future__ import annotations

from tools.dashboards.model import Dashboard, Panel, Query, Row
from tools.dashboards.overview import BY_STATUS, DEAD, DUE, JOB_TYPE, LONGEST_DUE, RECOVERED
from tools.dashboards.processes import CHRONOS, instances, last_row, of_role, server_errors

ROLE = "reaper"

REAPER = Dashboard(
    ROLE,
    "Chronos: reaper",
    "What had to be taken back, and whether somebody looks after it. The counts of jobs on all"
    " dashboards are the reapers': without one they end.",
    (
        Row(
            "Is work late?",
            (
                DUE,
                LONGEST_DUE,
                Panel(
                    "Pending",
                    "Jobs that are pending, due or not, without templates. Counted up to 100,000.",
                    "whatever was submitted for later.",
                    "short",
                    (Query(f'max(jobs_by_status{{{CHRONOS}, status="pending"}})', "pending"),),
                ),
                Panel(
                    "Templates overdue",
                    "For how long the longest waiting template should have fired.",
                    "0, or a moment.",
                    "s",
                    (Query(f"max(templates_overdue_seconds{{{CHRONOS}}})", "overdue"),),
                    limits=(60,),
                    alerts=("TemplatesOverdue",),
                ),
            ),
        ),
        Row("Is it failing?", (DEAD, server_errors(ROLE))),
        Row("Where is it stuck?", (RECOVERED, BY_STATUS)),
        last_row(
            ROLE,
            Panel(
                "Taken back by each reaper",
                "Jobs, in the chosen range of time.",
                "nothing; a few after an executor was killed. Several reapers share the work.",
                "short",
                (
                    Query(
                        "sum by (instance) (increase(reaper_recovered_jobs_total"
                        f"{{{of_role(ROLE)}}}[$__range]))",
                    ),
                ),
                width=24,
            ),
        ),
    ),
    (instances(ROLE), JOB_TYPE),
)
