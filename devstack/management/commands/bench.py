"""`manage.py bench`: the numbers in docs/benchmarks.md, measured again on this machine."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from devstack.bench import bench
from devstack.stack import data_directory
from jobs import arguments
from jobs.errors import ChronosError


class Command(BaseCommand):
    help = (
        "Start a private stack on free ports, make load tests and print a table in Markdown. "
        "Takes some minutes; everything else that runs on the machine counts too."
    )
    # They would ask a MongoDB that does not run yet.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--runs", type=arguments.count, default=3, help="of each load test (default: 3)"
        )
        parser.add_argument(
            "--backlog", type=arguments.count, default=10_000, help="jobs to drain (default: 10000)"
        )
        parser.add_argument(
            "--duration",
            type=arguments.duration,
            default=timedelta(seconds=20),
            help="of each load test for latency (default: 20s)",
        )

    def handle(self, **options: Any) -> None:
        try:
            table = bench(
                runs=options["runs"],
                backlog=options["backlog"],
                duration=options["duration"],
                parent=data_directory(settings.ENV),
                say=lambda line: self.stderr.write(line, str),
            )
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        except KeyboardInterrupt as exc:
            raise CommandError("Interrupted.", returncode=130) from exc
        self.stdout.write(table)
