"""`manage.py runscheduler`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from jobs.broker.publisher import Publisher
from jobs.broker.topics import require_topics
from jobs.loop import persist
from jobs.registry import known_types
from jobs.repository import Repository
from jobs.role_command import RoleCommand
from scheduler.leadership import elector_for
from scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from chronos_site.env import Config


class Command(RoleCommand):
    """One of several schedulers; etcd elects the one that works."""

    help = "Dispatch due jobs and fire cron templates, while this process is the leader."
    role = "scheduler"
    _scheduler: Scheduler | None = None

    def readiness(self) -> tuple[bool, str]:
        if self._scheduler is None:
            return False, "starting"
        term = self._scheduler.term
        return True, "standby" if term is None else f"leader, term {term.number}"

    def work(
        self,
        name: str,
        config: Config,
        repository: Repository,
        stop: threading.Event,
        options: dict[str, Any],
    ) -> None:
        job_types = known_types()
        persist(lambda: require_topics(config.broker, job_types), stop=stop)
        publisher = Publisher(config.broker, name)
        self._scheduler = Scheduler(
            name,
            config.scheduler,
            repository=repository,
            publisher=publisher,
            job_types=job_types,
        )
        self._scheduler.run(elector_for(config.election, name), stop)
        publisher.close()
