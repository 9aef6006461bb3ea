"""`manage.py migrate`: Django's own, and then the indexes and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import migrate
from django.db import DatabaseError
from django.db.migrations.exceptions import MigrationSchemaMissing

from chronos_site import VERSION
from jobs.broker.topics import ensure_topics, topics_for
from jobs.doctor import roles
from jobs.errors import BrokerUnavailable, ChronosError
from jobs.registry import known_types
from jobs.repository import Repository
from jobs.wording import listed

if TYPE_CHECKING:
    from chronos_site.config import Config


class Command(migrate.Command):
    """Prepares MongoDB and Kafka. Repeatable; roles never do it by themselves."""

    help = f"{migrate.Command.help} Then creates the indexes and the Kafka topics that are missing."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--require-topics",
            action="store_true",
            help="fail where Kafka does not make the topics, so that a deployment tries again",
        )
        parser.add_argument(
            "--drop-obsolete",
            action="store_true",
            help="also drop the indexes that only roles of earlier versions use: the last step of "
            "an upgrade, when none of them lives",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        config: Config = settings.CHRONOS
        try:
            job_types = known_types()
            # Before anything is changed.
            config.broker.security.check_files()
            repository = Repository.connect(config.store)
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        try:
            # Says clearly what Django's part would say in a long traceback.
            repository.ping()
            self._migrate(*args, **options)
            repository.ensure_indexes()
            repository.dead_letters.assign_groups()
            if options["drop_obsolete"]:
                self._drop_obsolete(repository)
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        finally:
            repository.close()
        self._provision_topics(config, job_types, is_required=options["require_topics"])

    def _migrate(self, *args: Any, **options: Any) -> None:
        try:
            super().handle(*args, **options)
        except (MigrationSchemaMissing, DatabaseError) as exc:
            raise CommandError(
                f"Django's migrations were not finished ({exc}). Another migrate may be under way; "
                "run it again when that has ended."
            ) from exc

    def _drop_obsolete(self, repository: Repository) -> None:
        if others := roles.versions(roles.live(repository)) - {VERSION}:
            raise CommandError(
                f"Roles of other versions live and may need them: {listed(sorted(others))}. "
                "No index was dropped; end the upgrade first."
            )
        dropped = repository.drop_obsolete_indexes()
        self.stdout.write(f"Obsolete indexes dropped: {', '.join(dropped) or 'none'}.")

    def _provision_topics(
        self, config: Config, job_types: frozenset[str], *, is_required: bool
    ) -> None:
        try:
            created = ensure_topics(config.broker, topics_for(job_types))
        except BrokerUnavailable as exc:
            problem = f"The topics were not created. {exc} Then run migrate again."
            if is_required:
                raise CommandError(problem) from exc
            # The API works without Kafka, and so do the tests of many a project.
            self.stderr.write(problem)
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        else:
            self.stdout.write(f"Kafka topics created: {', '.join(created) or 'none were missing'}.")
