"""What an attempt takes place in: its span, its keys on all log lines, and who asked for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from jobs.lifecycle import Finish, Job
from jobs.logs import events
from jobs.logs.fields import attempting
from jobs.origin import Origin, acting_for
from jobs.tracing import spans
from jobs.tracing.spans import Ongoing

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scope:
    """An attempt under way."""

    span: Ongoing

    def conclude(self, finish: Finish | None) -> None:
        """Tell how it ended.

        Args:
            finish: None: its end was decided elsewhere.
        """
        self.span.conclude(finish)
        if logger.isEnabledFor(logging.DEBUG):
            outcome = "taken_away" if finish is None else str(finish.attempt.outcome)
            error = None if finish is None else finish.attempt.error
            extra = events.ATTEMPT_ENDED(outcome=outcome, error=error)
            logger.debug("the attempt ended: %s", outcome, extra=extra)


@contextmanager
def scope_of(job: Job, started_at: datetime) -> Iterator[Scope]:
    """Make an attempt within it.

    Args:
        job: as it was claimed.
        started_at: when it became running, aware UTC.
    """
    with (
        spans.attempt(job, started_at) as span,
        attempting(job),
        acting_for(Origin(job.request_id, span.traceparent)),
    ):
        yield Scope(span)
