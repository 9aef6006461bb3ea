"""`manage.py runfanout`."""

from __future__ import annotations

from dataclasses import replace

from jobs.broker.publisher import Publisher
from jobs.broker.topics import require_topics
from jobs.errors import ConfigError
from jobs.loop import persist
from jobs.presence import Presence
from jobs.registry import known_types
from jobs.repository.nodes import Node
from jobs.role_command import Duty, RoleCommand
from scheduler.fanout import FanoutWorker, describe


class Command(RoleCommand):
    """One of several workers that share the dispatch, where DISPATCH is fanout."""

    help = "Dispatch due jobs together with other fan-out workers, each its own shards."
    role = "fanout"
    _worker: FanoutWorker | None = None

    def readiness(self) -> tuple[bool, str]:
        if self._worker is None or self._worker.shards is None:
            return False, "starting"
        return True, describe(self._worker.shards)

    def work(self, duty: Duty) -> None:
        config = duty.config
        if not config.scheduler.fans_out:
            raise ConfigError(
                "DISPATCH is leader: the leading scheduler dispatches. Set DISPATCH to fanout, for"
                " the schedulers and for the fan-out workers."
            )
        job_types = known_types()
        persist(lambda: require_topics(config.broker, job_types, fans_out=True), stop=duty.stop)
        publisher = Publisher(config.broker, duty.name)
        self._worker = worker = FanoutWorker(
            duty.name,
            config.scheduler,
            config.broker,
            repository=duty.repository,
            publisher=publisher,
            job_types=job_types,
        )

        def describe(node: Node) -> Node:
            return replace(node, shards=len(worker.shards or ()))

        with Presence(duty.repository, duty.name, self.role, describe):
            worker.run(duty.stop)
        publisher.close()
