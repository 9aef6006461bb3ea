"""`manage.py runscheduler`."""

from __future__ import annotations

from dataclasses import replace

from jobs.broker.publisher import Publisher
from jobs.broker.topics import require_topics
from jobs.loop import persist
from jobs.presence import Presence
from jobs.registry import known_types
from jobs.repository.nodes import Node
from jobs.role_command import Duty, RoleCommand
from scheduler.leadership import elector_for
from scheduler.scheduler import Scheduler


class Command(RoleCommand):
    """One of several schedulers; an election says which one works."""

    help = "Dispatch due jobs and fire cron templates, while this process is the leader."
    role = "scheduler"
    _scheduler: Scheduler | None = None

    def readiness(self) -> tuple[bool, str]:
        if self._scheduler is None:
            return False, "starting"
        term = self._scheduler.term
        return True, "standby" if term is None else f"leader, term {term.number}"

    def work(self, duty: Duty) -> None:
        job_types = known_types()
        config = duty.config
        persist(
            lambda: require_topics(config.broker, job_types, fans_out=config.scheduler.fans_out),
            stop=duty.stop,
        )
        publisher = Publisher(config.broker, duty.name)
        self._scheduler = scheduler = Scheduler(
            duty.name,
            config.scheduler,
            repository=duty.repository,
            publisher=publisher,
            job_types=job_types,
        )

        def describe(node: Node) -> Node:
            term = scheduler.term
            return node if term is None else replace(node, term=term.number)

        with Presence(duty.repository, duty.name, self.role, describe):
            scheduler.run(elector_for(config.election, duty.name), duty.stop)
        publisher.close()
