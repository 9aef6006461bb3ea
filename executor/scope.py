"""What an attempt takes place in: its span, its keys on all log lines, and who asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from jobs.lifecycle import Job
from jobs.logs.fields import attempting
from jobs.origin import Origin, acting_for
from jobs.tracing import spans
from jobs.tracing.spans import Ongoing


@contextmanager
def scope_of(job: Job, started_at: datetime) -> Iterator[Ongoing]:
    """Make an attempt within it.

    Args:
        job: as it was claimed.
        started_at: when it became running, aware UTC.

    Yields:
        Its span, to be told how it ended.
    """
    with (
        spans.attempt(job, started_at) as span,
        attempting(job),
        acting_for(Origin(job.request_id, span.traceparent)),
    ):
        yield span
