"""`manage.py runexecutor`."""

from __future__ import annotations

import threading
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from executor.executor import Executor
from jobs.broker.topics import require_topics
from jobs.errors import ConfigError
from jobs.loop import persist
from jobs.registry import Handler, handlers
from jobs.repository import Repository
from jobs.role_command import RoleCommand

if TYPE_CHECKING:
    from chronos_site.env import Config


class Command(RoleCommand):
    """Runs the jobs of some types."""

    help = "Run jobs: claims what the scheduler has queued and calls the handlers."
    role = "executor"

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--type", help="job types to serve, comma-separated, or all (default: JOB_TYPE)"
        )
        parser.add_argument(
            "--concurrency",
            type=int,
            help="handlers run at once (default: EXECUTOR_CONCURRENCY)",
        )

    def work(
        self,
        name: str,
        config: Config,
        repository: Repository,
        stop: threading.Event,
        options: dict[str, Any],
    ) -> None:
        settings = config.executor
        if options["concurrency"] is not None:
            if not 1 <= options["concurrency"] <= 1000:
                raise ConfigError("--concurrency must be from 1 to 1000")
            settings = replace(settings, concurrency=options["concurrency"])
        wanted = options["type"].split(",") if options["type"] else settings.job_types
        chosen = _choose(handlers(), wanted)
        persist(lambda: require_topics(config.broker, chosen), stop=stop)
        if stop.is_set():
            return
        executor = Executor(name, settings, config.broker, repository, chosen)
        stop.wait()
        executor.close()


def _choose(known: Mapping[str, Handler], wanted: Sequence[str]) -> Mapping[str, Handler]:
    names = [name.strip() for name in wanted if name.strip()]
    if "all" in names:
        return known
    if unknown := sorted(set(names) - set(known)):
        raise ConfigError(
            f"no handler for {', '.join(unknown)}. Known: {', '.join(sorted(known))}."
            " Set --type or JOB_TYPE."
        )
    return {name: known[name] for name in names}
