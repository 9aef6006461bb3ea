"""Ends the pauses of templates whose end has come."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Final

from jobs import cron
from jobs.audit import Author, Via
from jobs.errors import InvalidCron
from jobs.lifecycle import Job
from jobs.logs import events
from jobs.repository import Repository
from jobs.repository.documents import BrokenJob

logger = logging.getLogger(__name__)

AUTHOR: Final = Author("scheduler", Via.ROLE)
# Each is a transaction. Jobs are to be dispatched in between.
_BATCH: Final = 100
_MICROSECOND: Final = timedelta(microseconds=1)


class Resuming:
    """Moves paused templates on. Occurrences in the pause are dropped, those since its end not."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def step(self, now: datetime) -> bool:
        """Resume those whose end has come. True: there are more."""
        ended = self._repository.template_changes.ended_pauses(now=now, limit=_BATCH)
        for template in ended:
            until = _end_of(template)
            if self._repository.template_changes.end_pause(
                template.id, until=until, next_at=_next_at(template, until), now=now, by=AUTHOR
            ):
                extra = events.TEMPLATE_RESUMED(job_id=str(template.id))
                logger.info("a pause has ended", extra=extra)
        return len(ended) == _BATCH

    def next_due(self, now: datetime) -> datetime | None:
        """When the next pause ends."""
        return self._repository.template_changes.next_end()


def _end_of(template: Job | BrokenJob) -> datetime:
    until = template.paused_until if isinstance(template, Job) else template.document["pausedUntil"]
    # It was found by this.
    assert isinstance(until, datetime)  # noqa: S101
    return until


def _next_at(template: Job | BrokenJob, until: datetime) -> datetime:
    """The first occurrence at the end of the pause or later: the same whoever comes to it when.

    One that cannot be used is due at that end: whoever fires it, makes it a dead letter.
    """
    if isinstance(template, BrokenJob):
        return until
    try:
        return cron.parse(template.cron or "", template.timezone).next_after(until - _MICROSECOND)
    except InvalidCron:
        return until
