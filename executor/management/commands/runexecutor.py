"""`manage.py runexecutor`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import replace

from executor.executor import Executor
from executor.pool import handler_pool
from jobs.arguments import count_up_to
from jobs.broker.topics import require_topics
from jobs.errors import ConfigError
from jobs.loop import persist
from jobs.registry import Handler, handlers
from jobs.role_command import Duty, RoleCommand


class Command(RoleCommand):
    """Runs the jobs of some types."""

    help = "Run jobs: claims what the scheduler has queued and calls the handlers."
    role = "executor"
    _executor: Executor | None = None

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--type", help="job types to serve, comma-separated, or all (default: JOB_TYPE)"
        )
        parser.add_argument(
            "--concurrency",
            type=count_up_to(1000),
            help="handlers run at once (default: EXECUTOR_CONCURRENCY)",
        )

    def readiness(self) -> tuple[bool, str]:
        return (False, "starting") if self._executor is None else (True, "ready")

    def work(self, duty: Duty) -> None:
        settings = duty.config.executor
        if duty.options["concurrency"] is not None:
            settings = replace(settings, concurrency=duty.options["concurrency"])
        wanted = duty.options["type"].split(",") if duty.options["type"] else settings.job_types
        chosen = _choose(handlers(), wanted)
        persist(lambda: require_topics(duty.config.broker, chosen), stop=duty.stop)
        if duty.stop.is_set():
            return
        pool = handler_pool(chosen, settings.concurrency)
        self._executor = Executor(duty.name, settings, duty.config.broker, duty.repository, pool)
        duty.stop.wait()
        self._executor.close()


def _choose(known: Mapping[str, Handler], wanted: Sequence[str]) -> Mapping[str, Handler]:
    names = [name.strip() for name in wanted if name.strip()]
    if not names:
        raise ConfigError("no job type is named. Set --type or JOB_TYPE to some, or to all.")
    if "all" in names:
        return known
    if unknown := sorted(set(names) - set(known)):
        raise ConfigError(
            f"no handler for {', '.join(unknown)}. Known: {', '.join(sorted(known))}."
            " Set --type or JOB_TYPE."
        )
    return {name: known[name] for name in names}
