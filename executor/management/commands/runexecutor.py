"""`manage.py runexecutor`."""

from __future__ import annotations

import threading
from argparse import ArgumentParser
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from chronos_site import VERSION
from executor.delivery.open_files import allow_open_files
from executor.delivery.pool import delivery_pool
from executor.executor import Executor
from executor.pool import Pool, handler_pool
from jobs.arguments import count_up_to
from jobs.broker.topics import require_topics
from jobs.delivery.config import DELIVERY_TYPES
from jobs.errors import ConfigError
from jobs.loop import persist
from jobs.registry import handlers
from jobs.repository.nodes import DELIVERING
from jobs.role_command import Duty, RoleCommand

if TYPE_CHECKING:
    from chronos_site.config import ExecutorConfig


class Command(RoleCommand):
    """Runs the jobs of some types."""

    help = "Run jobs: claims what the scheduler has queued, calls the handlers, makes deliveries."
    role = "executor"
    _is_ready = False

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
        return (True, "ready") if self._is_ready else (False, "starting")

    def work(self, duty: Duty) -> None:
        settings = duty.config.executor
        if duty.options["concurrency"] is not None:
            settings = replace(settings, concurrency=duty.options["concurrency"])
        wanted = duty.options["type"].split(",") if duty.options["type"] else settings.job_types
        pools = _pools(wanted, duty, settings)
        job_types = [job_type for pool in pools.values() for job_type in pool.job_types]
        persist(lambda: require_topics(duty.config.broker, job_types), stop=duty.stop)
        if duty.stop.is_set():
            return
        executors = [
            Executor(name, settings, duty.config.broker, duty.repository, pool)
            for name, pool in pools.items()
        ]
        self._is_ready = True
        duty.stop.wait()
        # Side by side: one DRAIN_TIMEOUT is for all.
        closing = [threading.Thread(target=executor.close) for executor in executors]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()


def _pools(wanted: Sequence[str], duty: Duty, settings: ExecutorConfig) -> dict[str, Pool]:
    """What is served, by the name of the executor that does it."""
    known = handlers()
    chosen = _choose(known.keys() | DELIVERY_TYPES, wanted)
    handled = {name: known[name] for name in chosen if name in known}
    delivered = chosen & DELIVERY_TYPES
    pools = {}
    if handled:
        pools[duty.name] = handler_pool(handled, settings.concurrency)
    if delivered:
        name = duty.name + DELIVERING if handled else duty.name
        allow_open_files(duty.config.delivery.concurrency)
        pools[name] = delivery_pool(
            delivered,
            duty.config.delivery,
            duty.config.broker,
            name=name,
            user_agent=f"Chronos/{VERSION}",
        )
    return pools


def _choose(known: Collection[str], wanted: Sequence[str]) -> frozenset[str]:
    names = {name.strip() for name in wanted if name.strip()}
    if not names:
        raise ConfigError("no job type is named. Set --type or JOB_TYPE to some, or to all.")
    if "all" in names:
        return frozenset(known)
    if unknown := sorted(names - set(known)):
        raise ConfigError(
            f"no handler for {', '.join(unknown)}. Known: {', '.join(sorted(known))}."
            " Set --type or JOB_TYPE."
        )
    return frozenset(names)
