"""`manage.py resealsecrets`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs import services
from jobs.errors import ChronosError


class Command(BaseCommand):
    """Encrypts stored secrets anew, so that an old key can be dropped."""

    help = (
        "Encrypt all stored secrets, of definitions and of jobs that are not over, with the first"
        " of ENCRYPTION_KEYS. Repeatable."
    )
    requires_system_checks = ()

    def handle(self, **options: Any) -> None:
        try:
            resealed, unreadable = services.default().definitions.reseal()
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        self.stdout.write(f"{resealed} deliveries are sealed with the first key.")
        if unreadable:
            raise CommandError(
                f"{unreadable} deliveries could not be read with any of ENCRYPTION_KEYS: their jobs"
                " will fail. Add the missing key and repeat, or cancel them."
            )
