"""The executor: its parts, and the order in which they start and stop."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from executor.allowance import Allowance
from executor.announcer import Announcer
from executor.heartbeat import Heartbeat
from executor.held import Holdings
from executor.intake import Intake
from executor.logs import AttemptLogs
from executor.metrics import show_from_zero
from executor.pace import Pace
from executor.pool import Means, Pool
from executor.starter import Starter
from executor.writer import Writer
from jobs import attempts
from jobs.bookkeeping import Bookkeeper
from jobs.broker.publisher import Publisher
from jobs.broker.subscription import Subscription
from jobs.errors import StoreUnavailable
from jobs.logs import events
from jobs.logs.fields import of_job
from jobs.repeating import Repeater
from jobs.repository import Repository
from jobs.repository.nodes import Node

if TYPE_CHECKING:
    from chronos_site.config import BrokerConfig, ExecutorConfig

logger = logging.getLogger(__name__)

_FLUSH = timedelta(seconds=10)
_COUNT_EVERY = timedelta(seconds=5)


class Executor:
    """Claims and runs the jobs of some types until it is stopped.

    Data flows one way: intake → (starter) → crew → writer. The heartbeat keeps what is held.
    """

    def __init__(
        self,
        name: str,
        config: ExecutorConfig,
        broker: BrokerConfig,
        repository: Repository,
        pool: Pool,
    ) -> None:
        """Start taking in jobs.

        Args:
            name: unique per process; stands in `claimedBy`.
            config: prefetch and time-outs; types and slots are the pool's.
            broker: where the messages are.
            repository: where the jobs are.
            pool: what to serve, and who runs it.
        """
        self._repository = repository
        self._drain_timeout = config.drain_timeout
        self._stop = threading.Event()
        self._give_up = threading.Event()
        slots, types = pool.slots, pool.job_types
        show_from_zero(types)
        pace = Pace(slots=slots, most_prefetch=config.prefetch, starts_ahead=pool.starts_ahead)
        # Each intake holds one permit while it polls.
        room = Allowance(slots + pace.prefetch + len(types))
        started = Allowance(slots)
        self._holdings = Holdings(room, pool.name)
        self._publisher = Publisher(broker, name)
        self._announcer = Announcer(repository, self._publisher)
        self._bookkeeper = Bookkeeper(repository.statistics)
        # In a thread of its own: neither ends nor leases wait for it.
        self._counting = Repeater(self._bookkeeper.flush, every=_COUNT_EVERY, name="statistics")
        self._writer = Writer(
            repository, self._holdings, self._announcer, self._bookkeeper, self._give_up
        )
        self._logs = AttemptLogs(
            repository.attempt_logs,
            lines=config.log_lines,
            clock=repository.clock.now,
            give_up=self._give_up,
        )
        self._crew = pool.hire(Means(started, pace, self._writer, self._logs, repository.clock.now))
        self._starter = Starter(repository, self._holdings, started, self._crew, self._stop)
        self._heartbeat = Heartbeat(
            Node(name, "executor", repository.clock.now(), types),
            lease=config.claim_timeout,
            pool=pool,
            repository=repository,
            holdings=self._holdings,
            started=started,
            starter=self._starter,
            crew=self._crew,
            pace=pace,
            spare_room=len(types),
        )
        self._intakes = [
            Intake(
                partial(Subscription, broker, job_type, name),
                job_type=job_type,
                owner=name,
                lease=config.claim_timeout,
                repository=repository,
                holdings=self._holdings,
                started=started,
                starter=self._starter,
                crew=self._crew,
                stop=self._stop,
            )
            for job_type in types
        ]

    def close(self) -> None:
        """Stop in good order: no attempt is lost that can be saved.

        Nothing more is taken in; handlers get DRAIN_TIMEOUT; what is left goes back to pending.
        """
        self._stop.set()
        self._heartbeat.drain()
        for intake in self._intakes:
            intake.join()
        self._starter.close()
        self._crew.withdraw()
        self._hand_back_waiting()
        if not self._holdings.wait_empty(self._drain_timeout.total_seconds()):
            self._interrupt_working()
        self._give_up_after(_FLUSH)
        # A worker may have decided an end just now and not yet given it to the writer.
        self._holdings.wait_empty(_FLUSH.total_seconds())
        self._crew.close()
        self._logs.close()
        self._writer.close()
        self._counting.close()
        if not self._give_up.is_set():
            self._bookkeeper.close()
        self._heartbeat.close()
        self._announcer.close()
        self._publisher.close()

    def _hand_back_waiting(self) -> None:
        """claimed or running → pending for jobs that nobody has taken up."""
        ours = [held for held in self._holdings.all() if held.settle(unless_working=True)]
        if not ours:
            return
        extra = events.JOBS_HANDED_BACK(count=len(ours))
        logger.info("handing %d waiting jobs back", len(ours), extra=extra)
        try:
            now = self._repository.clock.now()
            self._repository.claims.hand_back([held.claim for held in ours], now=now)
        except StoreUnavailable as exc:
            extra = events.JOBS_LEFT(count=len(ours), error=exc)
            logger.warning("the reaper will take %d jobs back: %s", len(ours), exc, extra=extra)
        self._holdings.release(ours)

    def _interrupt_working(self) -> None:
        """running → pending for jobs whose handler did not end in time."""
        now = self._repository.clock.now()
        for held in self._holdings.all():
            if held.settle():
                extra = events.JOB_INTERRUPTED(**of_job(held.job))
                logger.warning("interrupted by shutdown", extra=extra)
                self._crew.abandon(held)
                started_at = held.started_at or now
                finish = attempts.handed_back(held.job, started_at=started_at, finished_at=now)
                self._writer.put(held, finish)

    def _give_up_after(self, patience: timedelta) -> None:
        timer = threading.Timer(patience.total_seconds(), self._give_up.set)
        timer.daemon = True
        timer.start()
