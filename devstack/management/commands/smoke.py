"""`manage.py smoke`: the whole pipeline against a running stack."""

from __future__ import annotations

import logging
from argparse import ArgumentParser
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from chronos_site import env
from chronos_site.config import BrokerConfig
from devstack.smoke.smoke import Check, Smoke
from jobs import arguments
from jobs.errors import ChronosError


class Command(BaseCommand):
    help = (
        "Deliver by HTTP and Kafka through a running stack, with retries and dead letters, and"
        " print what became of each. Ends with status 0 if all is as it should be. The executors"
        " must be allowed to reach loopback (DELIVERY_ALLOWED_NETWORKS), as in devstack."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        port = settings.CHRONOS.listen.api_port
        parser.add_argument(
            "--url", default=f"http://127.0.0.1:{port}", help="the API (default: %(default)s)"
        )
        parser.add_argument(
            "--patience",
            type=arguments.duration,
            default=timedelta(seconds=60),
            help="for everything to end (default: 60s)",
        )

    def handle(self, **options: Any) -> None:
        # It would tell of each request.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        try:
            smoke = Smoke(options["url"], _broker(), patience=options["patience"])
            try:
                checks = smoke.run()
                problems = {check.title: check.problem for check in checks}
            finally:
                smoke.close()
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        Console(highlight=False, markup=False, width=140).print(_table(checks, problems))
        if wrong := [title for title, problem in problems.items() if problem]:
            raise CommandError(f"{len(wrong)} of {len(checks)} went wrong: {', '.join(wrong)}")
        self.stdout.write(f"All {len(checks)} are as they should be.")


def _broker() -> BrokerConfig:
    """The stack's Kafka: that of KAFKA_BROKERS, else the one that devstack starts."""
    config: BrokerConfig = settings.CHRONOS.broker
    if env.is_set("KAFKA_BROKERS"):
        return config
    return replace(config, brokers=(f"127.0.0.1:{settings.ENV['DEVSTACK_KAFKA_PORT']}",))


def _table(checks: list[Check], problems: dict[str, str | None]) -> Table:
    table = Table("delivery", "status", "attempts", "answers", "ms", "verdict", box=SIMPLE_HEAD)
    for check in checks:
        codes = [str(e["responseCode"]) for e in reversed(check.executions) if "responseCode" in e]
        milliseconds = sum(each["durationMs"] for each in check.executions)
        table.add_row(
            check.title,
            check.job.get("status", "?"),
            str(len(check.executions)),
            " ".join(codes) or "–",
            f"{milliseconds:.0f}" if check.executions else "–",
            problems[check.title] or "as it should be",
        )
    return table
