"""`manage.py runreaper`."""

from __future__ import annotations

from threading import Thread

from jobs.broker.publisher import Publisher
from jobs.loop import run
from jobs.presence import Presence
from jobs.registry import known_types
from jobs.repeating import Repeater
from jobs.role_command import Duty, RoleCommand
from reaper.backlog import COUNT_EVERY, BacklogGauges
from reaper.bulk import BulkRunner
from reaper.reaper import Reaper


class Command(RoleCommand):
    """Takes back jobs whose message or executor disappeared, and does the bulk operations."""

    help = (
        "Take back stuck jobs, announce dead letters that were not, do bulk operations."
        " Any number may run."
    )
    role = "reaper"
    needs_kafka = False

    def work(self, duty: Duty) -> None:
        publisher = Publisher(duty.config.broker, duty.name)
        reaper = Reaper(
            duty.config.reaper, repository=duty.repository, publisher=publisher, stop=duty.stop
        )
        bulk = BulkRunner(
            duty.name, duty.config.reaper.bulk_rate, repository=duty.repository, stop=duty.stop
        )
        clock = duty.repository.clock.now
        gauges = BacklogGauges(duty.repository, known_types(), stop=duty.stop)
        # None waits for another.
        beside = Thread(target=run, args=(bulk,), kwargs={"clock": clock, "stop": duty.stop})
        with Presence(duty.repository, duty.name, self.role):
            counts = Repeater(gauges.count, every=COUNT_EVERY, name="backlog")
            beside.start()
            run(reaper, clock=clock, stop=duty.stop)
            beside.join()
            counts.close()
        publisher.close()
