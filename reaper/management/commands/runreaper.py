"""`manage.py runreaper`."""

from __future__ import annotations

from jobs.broker.publisher import Publisher
from jobs.loop import run
from jobs.role_command import Duty, RoleCommand
from reaper.reaper import Reaper


class Command(RoleCommand):
    """Takes back jobs whose message or executor disappeared."""

    help = "Take back stuck jobs and announce dead letters that were not. Any number may run."
    role = "reaper"
    needs_kafka = False

    def work(self, duty: Duty) -> None:
        publisher = Publisher(duty.config.broker, duty.name)
        reaper = Reaper(
            duty.config.reaper, repository=duty.repository, publisher=publisher, stop=duty.stop
        )
        run(reaper, clock=duty.repository.clock.now, stop=duty.stop)
        publisher.close()
