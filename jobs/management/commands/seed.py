"""`manage.py seed`: a realistic mix of jobs to look at."""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from jobs import arguments
from jobs.errors import ChronosError, InvalidJob
from jobs.lifecycle import Job
from jobs.load import mix
from jobs.load.progress import progress
from jobs.registry import known_types
from jobs.repository import Repository
from jobs.services import Services

BATCH: Final = 1000


class Command(BaseCommand):
    help = (
        "Store a mix of made-up jobs: due now and later, some that fail, some slow, and a few cron "
        "templates, for several tenants. Repeatable: what exists already is left alone."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--count", type=arguments.count, default=500, help="one-off jobs (default: 500)"
        )
        parser.add_argument(
            "--tenants",
            nargs="+",
            default=mix.TENANTS,
            metavar="TENANT",
            help=f"whose jobs (default: {' '.join(mix.TENANTS)})",
        )
        parser.add_argument(
            "--seed", type=int, default=1, help="another number gives other jobs (default: 1)"
        )
        parser.add_argument(
            "--prefix", default="seed", help="what the idempotency keys begin with (default: seed)"
        )

    def handle(self, **options: Any) -> None:
        tenants = tuple(dict.fromkeys(options["tenants"]))
        repository = Repository.connect(settings.CHRONOS.store)
        services = Services(repository, known_types())
        stored: Counter[str] = Counter()
        try:
            repository.require_indexes()
            named: dict[str, Any] = {
                "seed": options["seed"],
                "prefix": options["prefix"],
                "tenants": tenants,
            }
            templates = list(mix.templates(**named))
            jobs = mix.one_off_jobs(options["count"], **named, now=repository.clock.now())
            documents = itertools.chain(templates, jobs)
            with progress("seed", len(templates) + options["count"]) as advance:
                while batch := list(itertools.islice(documents, BATCH)):
                    stored.update(_store(services, batch))
                    advance(stored.total())
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        except KeyboardInterrupt as exc:
            raise CommandError(
                f"Interrupted: {_summary(stored)} The same command again stores the rest.",
                returncode=130,
            ) from exc
        finally:
            repository.close()
        self.stdout.write(f"{_summary(stored)} Tenants: {', '.join(tenants)}.")


def _store(services: Services, documents: list[dict[str, Any]]) -> Counter[str]:
    stored: Counter[str] = Counter()
    for result in services.submit_many(documents):
        match result:
            case Job():
                stored["templates" if result.is_template else result.job_type] += 1
            case InvalidJob():
                raise result
            case _:
                stored["existed"] += 1
    return stored


def _summary(stored: Counter[str]) -> str:
    existed, templates = stored["existed"], stored["templates"]
    types = sorted(stored.keys() - {"existed", "templates"})
    by_type = ", ".join(f"{stored[name]} {name}" for name in types)
    jobs = stored.total() - existed - templates
    inserted = f"Inserted {jobs} jobs{f' ({by_type})' if by_type else ''}"
    return f"{inserted} and {templates} cron templates; {existed} existed already."
