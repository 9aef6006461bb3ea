"""`manage.py doctor`: is this installation well, and what has to be changed?"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from jobs.doctor import election, kafka, mongodb, roles
from jobs.doctor.finding import Examination, Finding, Level, examined, printable
from jobs.errors import ChronosError, StoreUnavailable
from jobs.registry import known_types
from jobs.repository import Repository

if TYPE_CHECKING:
    from chronos_site.config import Config

_STYLES: Final = {Level.OK: "SUCCESS", Level.WARN: "WARNING", Level.FAIL: "ERROR"}


class Command(BaseCommand):
    """Only looks. Each server is asked on its own, for a bounded time."""

    help = "Ask each server how it is, and say what to change. Status 1 when something fails."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="the findings in JSON")

    def handle(self, **options: Any) -> None:
        config: Config = settings.CHRONOS
        try:
            job_types = known_types()
            repository = Repository.connect(config.store)
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        try:
            found = _examine(config, repository, job_types)
        finally:
            repository.close()
        worst = Level.OK
        for level in (Level.WARN, Level.FAIL):
            if any(each.level is level for part in found.values() for each in part):
                worst = level
        try:
            if options["json"]:
                parts = {name: [asdict(each) for each in part] for name, part in found.items()}
                self.stdout.write(json.dumps({"status": worst, "parts": parts}, indent=2))
            else:
                self._show(found)
            self.stdout.flush()
        except BrokenPipeError:
            # As of `doctor | head`. Python writes what is left when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if worst is Level.FAIL:
            sys.exit(1)

    def _show(self, found: dict[str, list[Finding]]) -> None:
        for name, part in found.items():
            self.stdout.write(name)
            for each in part:
                style = getattr(self.style, _STYLES[each.level])
                self.stdout.write(f"  {style(f'{each.level:<4}')}  {printable(each.text)}")
                if each.remedy:
                    self.stdout.write(f"        {printable(each.remedy)}")


def _examine(
    config: Config, repository: Repository, job_types: frozenset[str]
) -> dict[str, list[Finding]]:
    def readers() -> Mapping[str, int]:
        try:
            return roles.readers(register.result())
        except StoreUnavailable:
            # Kafka is looked at all the same.
            return {}

    def look_at_roles() -> Iterator[Finding]:
        return roles.examine(repository, register.result(), fans_out=config.scheduler.fans_out)

    parts: dict[str, Examination] = {
        "MongoDB": lambda: mongodb.examine(repository),
        "Kafka": lambda: kafka.examine(config.broker, job_types, readers),
        "etcd": lambda: election.examine_etcd(config.election),
        "Redis": lambda: election.examine_redis(config.election),
        "Roles": look_at_roles,
    }
    del parts["etcd" if config.election.backend == "redis" else "Redis"]
    # Side by side, so that the time-outs of servers that are away do not add up.
    with ThreadPoolExecutor(len(parts) + 1) as pool:
        # Two parts need it: MongoDB is waited for once.
        register = pool.submit(roles.live, repository)
        asked = {name: pool.submit(_findings, look) for name, look in parts.items()}
        return {name: each.result() for name, each in asked.items()}


def _findings(look: Examination) -> list[Finding]:
    return list(examined(look))
