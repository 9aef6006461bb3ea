"""`manage.py loadtest`: submit jobs over HTTP at a rate, and say how long everything took."""

from __future__ import annotations

import argparse
import json
import math
import secrets
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from jobs import arguments
from jobs.errors import ChronosError
from jobs.load.api import Api
from jobs.load.plan import PAYLOAD, Plan
from jobs.load.run import run

RATE: Final = 20.0
DURATION: Final = timedelta(seconds=30)
CONNECTIONS: Final = 32
BULK_CONNECTIONS: Final = 4
BACKLOG_DUE_IN: Final = timedelta(seconds=10)
ANSWER_SECONDS: Final = 30.0
"""What one answer may take."""
MAX_JOBS: Final = 1_000_000
"""The client keeps every job in memory."""


class Command(BaseCommand):
    help = (
        "Submit jobs to a running stack at a fixed rate, or a backlog at once, wait until each is "
        "over and report latencies and rates. Exit status 1: jobs were refused, lost or did not "
        "end in time."
    )
    # It talks to the API alone.
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--rate", type=_rate, help=f"jobs per second (default: {RATE:g})")
        parser.add_argument(
            "--duration", type=arguments.duration, help="such as 30s, the default, or 5m"
        )
        parser.add_argument(
            "--backlog",
            type=arguments.count,
            metavar="JOBS",
            help="instead of a rate: so many jobs at once, in bulk, due together",
        )
        parser.add_argument(
            "--due-in",
            type=arguments.duration,
            help="due so long after they are submitted (default: at once; a backlog: 10s)",
        )
        url = f"http://127.0.0.1:{settings.CHRONOS.listen.api_port}"
        parser.add_argument("--url", default=url, help=f"the API's (default: {url})")
        parser.add_argument("--job-type", default="noop", help="default: noop")
        parser.add_argument(
            "--payload", type=_payload, default=PAYLOAD, help="JSON (default: a 100 byte message)"
        )
        parser.add_argument(
            "--connections",
            type=arguments.count,
            help=f"requests at once (default: {CONNECTIONS}; a backlog: {BULK_CONNECTIONS})",
        )
        parser.add_argument(
            "--wait",
            type=arguments.duration,
            default=timedelta(minutes=5),
            help="for jobs to end, after the last came due (default: 5m)",
        )
        parser.add_argument("--json", action="store_true", help="report in JSON")

    def handle(self, **options: Any) -> None:
        plan = _plan(options)
        connections = BULK_CONNECTIONS if plan.is_backlog else CONNECTIONS
        try:
            api = Api(options["url"], ANSWER_SECONDS)
            report = run(
                plan,
                api,
                connections=options["connections"] or connections,
                patience=options["wait"],
            )
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        except KeyboardInterrupt as exc:
            raise CommandError(
                f"Interrupted. Jobs that were submitted run on, for the tenant {plan.tenant}.",
                returncode=130,
            ) from exc
        if options["json"]:
            self.stdout.write(json.dumps(report.as_document(), indent=2))
        else:
            self.stdout.write(f"{_title(plan, options['url'])}\n{report.as_text()}")
        if not report.is_good:
            raise CommandError("Not every job was accepted and came to its end.")


def _plan(options: dict[str, Any]) -> Plan:
    rate, duration, jobs = options["rate"], options["duration"], options["backlog"]
    due_in = options["due_in"]
    if jobs is None:
        rate = rate or RATE
        jobs = round(rate * (duration or DURATION).total_seconds())
        if jobs < 1:
            raise CommandError("--rate times --duration gives no job. Give a longer --duration.")
    elif rate is not None or duration is not None:
        raise CommandError("--backlog has no --rate and no --duration: leave them out.")
    elif due_in is None:
        due_in = BACKLOG_DUE_IN
    if jobs > MAX_JOBS:
        raise CommandError(f"{jobs} jobs are too many: {MAX_JOBS} at most.")
    return Plan(
        tenant=f"loadtest-{secrets.token_hex(6)}",
        jobs=jobs,
        rate=rate,
        due_in=due_in or timedelta(),
        job_type=options["job_type"],
        payload=options["payload"],
    )


def _title(plan: Plan, url: str) -> str:
    load = f"{plan.rate:g} {plan.job_type} jobs/s" if plan.rate else f"{plan.job_type} jobs at once"
    due = f", due {plan.due_in.total_seconds():g} s later" if plan.due_in else ""
    return f"{url}: {plan.jobs} jobs, {load}{due}, tenant {plan.tenant}"


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate <= MAX_JOBS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0 and up to {MAX_JOBS}")
    return rate


def _payload(text: str) -> dict[str, Any]:
    try:
        payload = json.loads(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"is no JSON: {exc}") from exc
    if not isinstance(payload, dict):
        raise argparse.ArgumentTypeError("must be an object")
    return payload
