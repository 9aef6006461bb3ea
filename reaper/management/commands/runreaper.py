"""`manage.py runreaper`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from jobs.broker.publisher import Publisher
from jobs.loop import run
from jobs.repository import Repository
from jobs.role_command import RoleCommand
from reaper.reaper import Reaper

if TYPE_CHECKING:
    from chronos_site.env import Config


class Command(RoleCommand):
    """Takes back jobs whose message or executor disappeared."""

    help = "Take back stuck jobs and announce dead letters that were not. Any number may run."
    role = "reaper"

    def work(
        self,
        name: str,
        config: Config,
        repository: Repository,
        stop: threading.Event,
        options: dict[str, Any],
    ) -> None:
        publisher = Publisher(config.broker, name)
        reaper = Reaper(config.reaper, repository=repository, publisher=publisher, stop=stop)
        run(reaper, clock=repository.clock.now, stop=stop)
        publisher.close()
