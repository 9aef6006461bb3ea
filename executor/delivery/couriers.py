"""The event loop that makes deliveries: hundreds of slow targets at once, in one thread."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from executor.calls import describe, ended_by
from executor.delivery.clock import SteadyClock
from executor.delivery.sender import Sender
from executor.held import Held
from executor.metrics import HANDLER_SECONDS, START_LAG_SECONDS
from executor.pool import Means
from executor.scope import scope_of
from jobs import attempts
from jobs.lifecycle import Finish, Outcome
from jobs.logs import events
from jobs.logs.fields import of_job

logger = logging.getLogger(__name__)


class Couriers:
    """One task for each job that was submitted; their number is bounded by the permits of started
    jobs. A task that is abandoned is cancelled, so that it keeps neither its place nor its
    connection."""

    def __init__(self, means: Means, clock: SteadyClock, senders: Mapping[str, Sender]) -> None:
        """Start the thread.

        Args:
            means: what the executor provides.
            clock: the store's time; put right here.
            senders: by job type; used on the event loop only.
        """
        self._means = means
        self._clock = clock
        self._senders = senders
        self._tasks: dict[Held, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="couriers", daemon=True)
        self._thread.start()

    def submit(self, helds: Iterable[Held]) -> None:
        """Deliver started jobs, all at once."""
        self._loop.call_soon_threadsafe(self._begin, list(helds))

    def withdraw(self) -> list[Held]:
        """Nothing: what is submitted begins at once."""
        return []

    def expire(self, helds: Iterable[Held], at: float) -> None:
        """End the attempts that outlive their `timeoutSeconds`.

        Args:
            helds: those held.
            at: monotonic seconds.
        """
        # This is called all the time, by a thread that may wait.
        self._clock.look()
        for held in helds:
            if held.is_overdue(at) and held.settle():
                self.abandon(held)
                seconds = held.job.timeout_seconds
                error = f"the delivery took longer than timeoutSeconds, {seconds:g}"
                self._means.writer.put(held, held.failed(error, Outcome.TIMED_OUT, self._clock()))

    def abandon(self, held: Held) -> None:
        """Break off a delivery whose end was decided elsewhere.

        Args:
            held: settled by the caller.
        """
        self._loop.call_soon_threadsafe(self._cancel, held)

    def close(self) -> None:
        """Break off what is under way, then end the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            # For `sender.apart`. More of them would be no faster, and take the loop's time.
            self._loop.set_default_executor(ThreadPoolExecutor(1, "preparing"))
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        await self._closing.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for sender in self._senders.values():
            await sender.close()

    def _begin(self, helds: Iterable[Held]) -> None:
        for held in helds:
            task = self._tasks[held] = self._loop.create_task(self._work(held))
            # Not in the task itself: one that is cancelled before it begins runs nothing.
            task.add_done_callback(partial(self._let_go, held))

    def _let_go(self, held: Held, task: asyncio.Task[None]) -> None:
        del self._tasks[held]
        self._means.started.give()

    def _cancel(self, held: Held) -> None:
        if task := self._tasks.get(held):
            task.cancel()

    async def _work(self, held: Held) -> None:
        try:
            if held.begin():
                with scope_of(held.job, held.started_at or self._clock()) as span:
                    finish = await self._attempt(held)
                    is_ours = held.settle()
                    span.conclude(finish if is_ours else None)
                if is_ours:
                    self._means.writer.put(held, finish)
        except Exception as exc:
            # Not the delivery's doing, `_attempt` sees to that.
            extra = events.ATTEMPT_BROKEN(**of_job(held.job))
            logger.exception("a courier failed", extra=extra)
            if held.settle():
                error = f"the executor failed: {describe(exc)}"
                self._means.writer.put(held, held.failed(error, Outcome.FAILED, self._clock()))

    async def _attempt(self, held: Held) -> Finish:
        job, clock = held.job, self._clock
        begun, now = time.monotonic(), clock()
        started_at = held.started_at or now
        lag = max(0.0, (now - job.ready_at).total_seconds())
        START_LAG_SECONDS.labels(job.job_type).observe(lag)
        try:
            with self._means.logs.capturing(held.execution_id):
                delivered = await self._senders[job.job_type].deliver(job)
        except Exception as exc:  # noqa: BLE001 - a job cannot take its executor along
            return ended_by(
                job,
                exc,
                started_at=started_at,
                finished_at=clock(),
                random=random.random(),  # noqa: S311
            )
        finally:
            took = time.monotonic() - begun
            HANDLER_SECONDS.labels(job.job_type).observe(took)
            self._means.pace.note(took)
        return attempts.completed(
            job,
            result=delivered.result,
            response=delivered.response,
            started_at=started_at,
            finished_at=clock(),
        )
