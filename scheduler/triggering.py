"""Announces each minute in which jobs are due to the fan-out workers, once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Final

from jobs.broker.publisher import Publisher
from jobs.errors import BrokerUnavailable
from jobs.logs import events
from jobs.messages import TRIGGERS_TOPIC, trigger_messages
from jobs.repository import Repository
from scheduler.metrics import TRIGGERS_SENT

logger = logging.getLogger(__name__)

_MINUTE: Final = timedelta(minutes=1)
_LONG_AGO: Final = datetime.fromtimestamp(0, UTC)
COUNT_LIMIT: Final = 10_000
"""Due jobs of a type are counted up to here."""


class Triggering:
    """One leader's part in fan-out: first the minute's bucket, which is unique, then its triggers.

    A bucket whose triggers are not known to be out stays open. Whoever leads when the next minute
    comes, or a new leader at once, sends them then. Triggers may come twice, and a lost one costs a
    worker no more than its tick.
    """

    def __init__(
        self,
        repository: Repository,
        publisher: Publisher,
        *,
        owner: str,
        term: int,
        job_types: Callable[[], Collection[str]],
    ) -> None:
        """The triggering of one term.

        Args:
            repository: where jobs and buckets are.
            publisher: where the triggers go.
            owner: the leader, unique per process.
            term: its number.
            job_types: tells every type that is dispatched.
        """
        self._repository = repository
        self._publisher = publisher
        self._owner = owner
        self._term = term
        self._job_types = job_types
        self._minute = _LONG_AGO

    def step(self, now: datetime) -> bool:
        """Announce a minute that has come. There is never more to do at once."""
        minute = now.replace(second=0, microsecond=0)
        if minute > self._minute:
            self._open(minute, now)
            for each in self._repository.buckets.take_over(by=self._owner, term=self._term):
                if not self._trigger(each, now):
                    # Kafka is away, and each further try would hold up the templates.
                    break
            self._minute = minute
        return False

    def next_due(self, now: datetime) -> datetime | None:
        """The next minute."""
        return self._minute + _MINUTE if self._minute > _LONG_AGO else now

    def _open(self, minute: datetime, now: datetime) -> None:
        """Make the minute's bucket, if jobs are due in it, or were since the last that has one."""
        newest = self._repository.buckets.newest(until=minute)
        if newest == minute:
            return
        since = _LONG_AGO if newest is None else newest + _MINUTE
        until = minute + _MINUTE
        count = self._repository.dispatch.count_due
        due = sum(
            count(job_type, since=since, until=until, limit=COUNT_LIMIT)
            for job_type in self._job_types()
        )
        if due:
            self._repository.buckets.insert(
                minute, due=due, by=self._owner, term=self._term, now=now
            )

    def _trigger(self, minute: datetime, now: datetime) -> bool:
        """Send a minute's triggers. False: they are not known to have arrived."""
        try:
            partitions = self._publisher.partitions(TRIGGERS_TOPIC)
        except BrokerUnavailable as exc:
            extra = events.MINUTE_DELAYED(error=exc)
            logger.warning("the minute %s is not announced yet: %s", minute, exc, extra=extra)
            return False
        messages = trigger_messages(minute, partitions)
        failed = self._publisher.publish(messages)
        TRIGGERS_SENT.labels("confirmed").inc(len(messages) - len(failed))
        TRIGGERS_SENT.labels("unconfirmed").inc(len(failed))
        if failed:
            logger.warning(
                "of the minute %s, %d triggers are not known to have reached Kafka",
                minute,
                len(failed),
                extra=events.TRIGGERS_UNCONFIRMED(count=len(failed)),
            )
            return False
        self._repository.buckets.close(minute, partitions=partitions, by=self._owner, now=now)
        return True
