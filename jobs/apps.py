"""The app, and what `manage.py check` asks of the project around it."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, register

from jobs.errors import ConfigError


class JobsConfig(AppConfig):
    """The core."""

    name = "jobs"

    def ready(self) -> None:
        from jobs.deployment import check_installation

        register(check_handlers)
        register(check_installation, Tags.security, deploy=True)


def check_handlers(**_: Any) -> list[CheckMessage]:
    """Say which `handlers.py` cannot be used."""
    from jobs.registry import handlers

    try:
        handlers()
    except ConfigError as exc:
        return [Error(str(exc), id="jobs.E001")]
    return []
