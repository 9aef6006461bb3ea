"""`manage.py migrate`: Django's own, and then the indexes and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import migrate

from jobs.broker.topics import ensure_topics, topics_for
from jobs.errors import BrokerUnavailable, ChronosError
from jobs.registry import known_types
from jobs.repository import Repository

if TYPE_CHECKING:
    from chronos_site.env import Config


class Command(migrate.Command):
    """Prepares MongoDB and Kafka. Repeatable; roles never do it by themselves."""

    help = f"{migrate.Command.help} Then creates the indexes and the Kafka topics that are missing."

    def handle(self, *args: Any, **options: Any) -> None:
        config: Config = settings.CHRONOS
        try:
            job_types = known_types()
            repository = Repository.connect(config.store)
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        try:
            # Says clearly what Django's part would say in a long traceback.
            repository.ping()
            super().handle(*args, **options)
            repository.ensure_indexes()
            repository.dead_letters.assign_groups()
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        finally:
            repository.close()
        self._provision_topics(config, job_types)

    def _provision_topics(self, config: Config, job_types: frozenset[str]) -> None:
        try:
            created = ensure_topics(config.broker, topics_for(job_types))
        except BrokerUnavailable as exc:
            # The API works without Kafka.
            self.stderr.write(f"The topics were not created. {exc} Then run migrate again.")
        else:
            self.stdout.write(f"Kafka topics created: {', '.join(created) or 'none were missing'}.")
