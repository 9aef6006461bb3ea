"""The fan-out worker: dispatches the due jobs of the shards that its group gives it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Set
from datetime import datetime
from typing import TYPE_CHECKING, Final

from jobs.broker.publisher import Publisher
from jobs.broker.triggers import TriggerSubscription
from jobs.errors import StoreUnavailable
from jobs.lifecycle import SHARDS
from jobs.logs import events
from jobs.loop import Patience, run
from jobs.messages import trigger_of
from jobs.repository import Repository
from scheduler.dispatcher import Dispatcher
from scheduler.metrics import SHARDS_OWNED, TRIGGERS_RECEIVED
from scheduler.timekeeper import Timekeeper

if TYPE_CHECKING:
    from chronos_site.config import BrokerConfig, SchedulerConfig

logger = logging.getLogger(__name__)

# Bounds also how late a change of the shards, or the end, is noticed.
_POLL_SECONDS: Final = 0.1
_BATCH: Final = 1000


class FanoutWorker:
    """One of several that share the dispatch among them; no leader is needed.

    One thread steps; another one is the member of the group: it learns which shards are owned, and
    has them looked at when that changes or a trigger comes.
    """

    def __init__(
        self,
        name: str,
        config: SchedulerConfig,
        broker: BrokerConfig,
        *,
        repository: Repository,
        publisher: Publisher,
        job_types: Iterable[str],
    ) -> None:
        """A worker that has not joined yet.

        Args:
            name: unique per process.
            config: tick and batch.
            broker: where the group is.
            repository: where the jobs are.
            publisher: where the wake-ups go.
            job_types: the types that have a handler here; those of live executors are added.
        """
        self._name = name
        self._broker = broker
        self._repository = repository
        dispatcher = Dispatcher(
            repository, publisher, job_types=job_types, batch=config.claim_batch
        )
        self._timekeeper = Timekeeper(repository, config, dispatcher)
        self._timekeeper.look_after(frozenset())
        self._subscription: TriggerSubscription | None = None
        self._is_cut_off = False
        self.shards: frozenset[int] | None = None
        """What it owns; None before it has joined."""

    def run(self, stop: threading.Event) -> None:
        """Join, and dispatch until `stop` is set."""
        member = threading.Thread(target=self._belong, args=(stop,), name="member")
        member.start()
        run(self, clock=self._repository.clock.now, stop=stop)
        member.join()
        self._timekeeper.close()

    def run_once(self, now: datetime) -> bool:
        """Dispatch; True when there is more to do at once."""
        try:
            more = self._timekeeper.run_once(now)
        except StoreUnavailable:
            self._is_cut_off = True
            raise
        self._is_cut_off = False
        return more

    def wait(self) -> None:
        """Sleep until there is something to do."""
        self._timekeeper.wait()

    def _belong(self, stop: threading.Event) -> None:
        patience = Patience(stop)
        while not stop.is_set():
            try:
                if self._is_cut_off:
                    # As if it had died: others may reach the store that this one does not. Not
                    # where a step is merely slow, as it would be for the others too.
                    self._leave()
                    stop.wait(_POLL_SECONDS)
                else:
                    self._receive()
                    patience.relax()
            except Exception as exc:  # noqa: BLE001 - as in `jobs.loop.run`
                self._leave()
                patience.bear(exc)
        self._timekeeper.interrupt()
        # At once, so that others take over.
        self._leave()

    def _receive(self) -> None:
        if self._subscription is None:
            self._subscription = TriggerSubscription(self._broker, self._name, self._own)
        message = self._subscription.poll(_POLL_SECONDS)
        if message is None:
            return
        messages = [message, *self._subscription.more(_BATCH)]
        triggers = [trigger_of(each.value()) for each in messages]
        if junk := triggers.count(None):
            extra = events.TRIGGERS_JUNK(count=junk)
            logger.warning("dropped %d messages that are no triggers", junk, extra=extra)
            TRIGGERS_RECEIVED.labels("junk").inc(junk)
        if heeded := len(triggers) - junk:
            # All are looked at then, whatever the trigger names: it costs no more.
            self._timekeeper.interrupt()
            TRIGGERS_RECEIVED.labels("heeded").inc(heeded)
        self._subscription.done(messages)

    def _leave(self) -> None:
        if self._subscription is not None:
            self._own(frozenset())
            self._subscription.close()
            self._subscription = None

    def _own(self, shards: frozenset[int]) -> None:
        if shards != self.shards:
            extra = events.FANOUT_OWNS(shards=len(shards))
            logger.info("%s owns %s", self._name, describe(shards), extra=extra)
            if added := shards - (self.shards or frozenset()):
                self._timekeeper.take_over(added)
            self.shards = shards
            SHARDS_OWNED.set(len(shards))
            self._timekeeper.look_after(shards)


def describe(shards: Set[int]) -> str:
    """Shards in words, such as `96 of 256 shards: 0-63, 128-159`."""
    firsts = [shard for shard in sorted(shards) if shard - 1 not in shards]
    lasts = [shard for shard in sorted(shards) if shard + 1 not in shards]
    ranges = [f"{first}-{last}" for first, last in zip(firsts, lasts, strict=True)]
    return f"{len(shards)} of {SHARDS} shards" + (f": {', '.join(ranges)}" if ranges else "")
