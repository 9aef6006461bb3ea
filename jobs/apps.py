"""The app, and what `migrate` does for it: indexes and topics."""

from __future__ import annotations

import sys
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import post_migrate


class JobsConfig(AppConfig):
    """Jobs: what they are, where they are kept, what people may do with them."""

    name = "jobs"

    def ready(self) -> None:
        post_migrate.connect(_provision, sender=self)


def _provision(**_: Any) -> None:
    """Create indexes and topics. Without Kafka the API can still work, so that is only said."""
    from jobs.broker.topics import ensure_topics, topics_for
    from jobs.errors import BrokerUnavailable
    from jobs.registry import known_types
    from jobs.repository import Repository

    repository = Repository.connect(settings.CHRONOS.store)
    try:
        repository.ensure_indexes()
    finally:
        repository.close()
    try:
        ensure_topics(settings.CHRONOS.broker, topics_for(known_types()))
    except BrokerUnavailable as exc:
        sys.stderr.write(f"The topics were not created. {exc} Then run migrate again.\n")
