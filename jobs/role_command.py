"""What the commands of all roles share: start, probes, patience, an orderly end."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from abc import abstractmethod
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from jobs.broker.topics import ping
from jobs.errors import ChronosError
from jobs.logs import events
from jobs.logs.process import identify
from jobs.loop import persist, stop_on_signals
from jobs.probes import Probes
from jobs.registry import handlers
from jobs.repository import Repository
from jobs.tracing import tracer

if TYPE_CHECKING:
    from chronos_site.config import Config

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Duty:
    """What one process of a role works with."""

    name: str
    """Unique per process."""
    config: Config
    repository: Repository
    stop: threading.Event
    """Set by SIGTERM and SIGINT."""
    options: Mapping[str, Any]
    """From the command line."""


class RoleCommand(BaseCommand):
    """Base of `runscheduler`, `runfanout`, `runexecutor` and `runreaper`."""

    role: ClassVar[str]
    needs_kafka: ClassVar[bool] = True
    """Whether it can do nothing without Kafka."""
    # What they find of the handlers is said in one sentence here.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--name", help="name of this process; default: made from the host")

    def handle(self, **options: Any) -> None:
        config: Config = settings.CHRONOS
        name = options["name"] or f"{self.role}-{socket.gethostname()}-{secrets.token_hex(3)}"
        identify(self.role, name)
        tracer.start(config.tracing, self.role, name)
        stop = stop_on_signals()
        try:
            handlers()
            repository = Repository.connect(config.store)
            probes = Probes(
                config.listen.metrics_host,
                config.listen.metrics_port,
                lambda: self._ready(config, repository),
            )
            try:
                persist(repository.require_indexes, stop=stop)
                if not stop.is_set():
                    logger.info(
                        "%s starts, probes on port %d",
                        name,
                        probes.port,
                        extra=events.ROLE_STARTED(),
                    )
                    self.work(Duty(name, config, repository, stop, options))
            finally:
                probes.close()
                repository.close()
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        finally:
            tracer.stop()
        logger.info("%s has stopped", name, extra=events.ROLE_STOPPED())

    def _ready(self, config: Config, repository: Repository) -> tuple[bool, str]:
        try:
            repository.ping()
            if self.needs_kafka:
                ping(config.broker)
        except ChronosError as exc:
            return False, str(exc)
        return self.readiness()

    def readiness(self) -> tuple[bool, str]:
        """Whether the role can work, given that its servers answer."""
        return True, "ready"

    @abstractmethod
    def work(self, duty: Duty) -> None:
        """Run until `duty.stop` is set, then end in good order."""
