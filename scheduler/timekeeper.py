"""Dispatches what is due, and sleeps until something else is."""

from __future__ import annotations

import logging
from collections.abc import Sequence, Set
from datetime import datetime, timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol

from jobs.errors import StoreUnavailable
from jobs.logs import events
from jobs.repository import Repository
from scheduler.dispatcher import Dispatched, Dispatcher
from scheduler.metrics import TICK_SECONDS
from scheduler.wakeup import Wakeup

if TYPE_CHECKING:
    from chronos_site.config import SchedulerConfig

logger = logging.getLogger(__name__)

# A message that was sent reaches an executor with room in a fraction of this. One that waits longer
# is sent twice, which costs no more than a message.
_IN_KAFKA: Final = timedelta(seconds=2)
_SHORTEST_LOOK: Final = timedelta(milliseconds=10)
# Each look costs the store a count of all jobs in flight, so it should find room for many.
_LITTLE_FREE: Final = 0.1
_MUCH_FREE: Final = 0.3


class Chore(Protocol):
    """What is done at its time, before the jobs are looked at."""

    def step(self, now: datetime) -> bool:
        """Do what is due. True: more is due."""

    def next_due(self, now: datetime) -> datetime | None:
        """When there will be something to do; None: not known of."""


class Timekeeper:
    """Looks for due jobs exactly when there are some. The same for a leader and fan-out workers."""

    def __init__(
        self, repository: Repository, config: SchedulerConfig, dispatcher: Dispatcher
    ) -> None:
        """One that looks after all jobs.

        Args:
            repository: where the jobs are.
            config: its tick is the longest sleep.
            dispatcher: what sends the jobs on.
        """
        self._repository = repository
        self._tick = config.tick
        self._dispatcher = dispatcher
        self._wakeup = Wakeup(repository, horizon=config.tick)
        self._shards: Set[int] | None = None
        self._taken_over: SimpleQueue[Set[int] | None] = SimpleQueue()
        self.begin()

    def begin(self, chores: Sequence[Chore] = ()) -> None:
        """Look at everything next, whatever was known before.

        Args:
            chores: what to do besides, from now on.
        """
        self._chores = chores
        self._woken: Set[str] | None = None
        self._looked_at: datetime | None = None
        self._next_look_at: datetime | None = None
        self._full_pause = timedelta(0)

    def look_after(self, shards: Set[int] | None) -> None:
        """Leave the jobs of other shards to others; look at these at once. None: look at all.

        May be called from another thread.
        """
        self._shards = shards
        self._wakeup.look_after(shards)

    def take_over(self, shards: Set[int] | None) -> None:
        """Send again what another process has moved to queued and perhaps not sent, as it died.

        May be called from another thread.

        Args:
            shards: whose jobs that one looked after before; None: all.
        """
        self._taken_over.put(shards)

    def run_once(self, now: datetime) -> bool:
        """Do the chores, dispatch; True when there is more to do at once."""
        with TICK_SECONDS.time():
            only, self._woken = self._woken, None
            if self._recover(now):
                only = None
            more = False
            failure: Exception | None = None
            if only is None:
                self._looked_at = now
                self._next_look_at = None
                for chore in self._chores:
                    try:
                        more = chore.step(now) or more
                    except StoreUnavailable:
                        raise
                    except Exception as exc:  # noqa: BLE001 - raised below
                        failure = exc
            sent = self._dispatcher.step(now, only, self._shards)
            if failure:
                # What a chore stumbles over must not hold up the jobs.
                raise failure
        self._note_fullness(sent)
        if more or sent.has_more:
            # The store is looked at anyway; a flood of inserts need not be read here as well.
            self._wakeup.pause()
            return True
        return False

    def _recover(self, now: datetime) -> int:
        """Make pending what was left behind by those that were taken over from."""
        count = 0
        while not self._taken_over.empty():
            shards = self._taken_over.get()
            try:
                count += self._repository.recovery.requeue_lost_messages(
                    queued_before=now - _IN_KAFKA, now=now, shards=shards
                )
            except Exception:
                self._taken_over.put(shards)
                raise
        if count:
            extra = events.JOBS_REPEATED(count=count)
            logger.info("%d jobs are sent again, as their messages may be lost", count, extra=extra)
        return count

    def _note_fullness(self, sent: Dispatched) -> None:
        """Look at full executors as often as a good part of them has become free."""
        if not sent.is_full:
            self._full_pause = timedelta(0)
        elif not self._full_pause or sent.fill > _MUCH_FREE:
            self._full_pause = max(self._full_pause / 2, _SHORTEST_LOOK)
        elif sent.fill < _LITTLE_FREE:
            self._full_pause = min(self._full_pause * 2, self._tick)

    def wait(self) -> None:
        """Sleep until the next due time, a wake-up, or the tick, whichever is first."""
        now = self._repository.clock.now()
        if self._next_look_at is None:
            self._next_look_at = self._find_next_look(now)
        until = self._next_look_at
        if self._full_pause:
            until = min(until, now + self._full_pause)
        self._woken = self._wakeup.sleep(until)

    def _find_next_look(self, now: datetime) -> datetime:
        """The earliest due time within a tick; what is inserted later shows in the stream.

        What came due since the last look, while that went on, is due now.
        """
        tick = now + self._tick
        looked_at = self._looked_at or now
        candidates = [chore.next_due(now) for chore in self._chores]
        if self._shards is None or self._shards:
            candidates += [
                self._repository.dispatch.next_due(
                    job_type, after=looked_at, until=tick, shards=self._shards
                )
                for job_type in self._dispatcher.open_types
            ]
        return min([tick, *(at for at in candidates if at is not None)])

    def interrupt(self) -> None:
        """End a sleep at once, and look at everything. May be called from another thread."""
        self._wakeup.interrupt()

    def pause(self) -> None:
        """Follow no changes until the next sleep."""
        self._wakeup.pause()

    def close(self) -> None:
        """End the thread that follows the changes."""
        self._wakeup.close()
