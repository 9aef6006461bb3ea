"""The threads that run handlers."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from queue import Empty, SimpleQueue

from executor.allowance import Allowance
from executor.calls import call, conclude, context_for, describe
from executor.child import Child
from executor.held import Held
from executor.logs import AttemptLogs
from executor.metrics import ABANDONED, HANDLER_SECONDS, START_LAG_SECONDS
from executor.pace import Pace
from executor.scope import scope_of
from executor.writer import Writer
from jobs.lifecycle import Outcome
from jobs.logs import events
from jobs.logs.fields import of_job
from jobs.registry import Handler

logger = logging.getLogger(__name__)


class Workers:
    """A fixed number of threads. One that is stuck in a handler after its deadline is replaced."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        slots: int,
        started: Allowance,
        pace: Pace,
        writer: Writer,
        logs: AttemptLogs,
        clock: Callable[[], datetime],
    ) -> None:
        """Start the threads.

        Args:
            handlers: by job type.
            slots: handlers run at once.
            started: permits of started jobs; one is returned as each handler ends.
            pace: told how long handlers take.
            writer: given the ends.
            logs: keeps what the handlers log.
            clock: the store's time.
        """
        self._handlers = handlers
        self._started = started
        self._pace = pace
        self._writer = writer
        self._logs = logs
        self._clock = clock
        self._queue: SimpleQueue[Held | None] = SimpleQueue()
        self._slots = slots
        for _ in range(slots):
            self._hire()

    def submit(self, helds: Iterable[Held]) -> None:
        """Run the handlers of started jobs, in this order."""
        for held in helds:
            self._queue.put(held)

    def withdraw(self) -> list[Held]:
        """Take back the jobs that no thread has taken up. Not after `close`."""
        waiting = []
        with suppress(Empty):
            # Threads take from it as well: what was there a moment ago may be gone.
            while (held := self._queue.get_nowait()) is not None:
                waiting.append(held)
        self._started.give(len(waiting))
        return waiting

    def close(self) -> None:
        """End the threads that are idle. One that is stuck in a handler ends with the process."""
        for _ in range(self._slots):
            self._queue.put(None)

    def _hire(self) -> None:
        threading.Thread(target=self._run, name="worker", daemon=True).start()

    def _run(self) -> None:
        child = Child()
        try:
            while (held := self._queue.get()) is not None:
                try:
                    if not self._work(held, child):
                        return
                except Exception as exc:
                    # Not the handler's doing (`conclude` sees to that): a child that cannot start.
                    extra = events.ATTEMPT_BROKEN(**of_job(held.job))
                    logger.exception("a worker failed", extra=extra)
                    if held.settle():
                        self._started.give()
                        error = f"the executor failed: {describe(exc)}"
                        self._writer.put(held, held.failed(error, Outcome.FAILED, self._clock()))
        finally:
            child.close()

    def _work(self, held: Held, child: Child) -> bool:
        """Run one handler. False when this thread was replaced meanwhile."""
        job = held.job
        handler = self._handlers[job.job_type]
        if handler.in_process:
            child.prepare()
        if not held.begin():
            self._started.give()
            return True
        begun = time.monotonic()
        now = self._clock()
        started_at = held.started_at or now
        lag = max(0.0, (now - job.ready_at).total_seconds())
        START_LAG_SECONDS.labels(job.job_type).observe(lag)

        def attempt() -> str | None:
            with self._logs.capturing(held.execution_id) as take:
                if handler.in_process:
                    return child.run(job, now, held.cancelled, take)
                return call(handler.function, context_for(job, now, held.cancelled))

        with scope_of(job, started_at) as span:
            finish = conclude(
                job,
                attempt,
                started_at=started_at,
                clock=self._clock,
                random=random.random(),  # noqa: S311
            )
            took = time.monotonic() - begun
            HANDLER_SECONDS.labels(job.job_type).observe(took)
            self._pace.note(took)
            is_ours = held.settle()
            span.conclude(finish if is_ours else None)
        if not is_ours:
            return False
        self._started.give()
        self._writer.put(held, finish)
        return True

    def expire(self, helds: Iterable[Held], at: float) -> None:
        """End the attempts that outlive their `timeoutSeconds`.

        Args:
            helds: those held.
            at: monotonic seconds.
        """
        for held in helds:
            if held.is_overdue(at) and held.settle():
                self.abandon(held)
                seconds = held.job.timeout_seconds
                error = f"the handler ran longer than timeoutSeconds, {seconds:g}"
                self._writer.put(held, held.failed(error, Outcome.TIMED_OUT, self._clock()))

    def abandon(self, held: Held) -> None:
        """Ask the handler of a job whose end was decided elsewhere to stop, and go on without it.

        Args:
            held: settled by the caller.
        """
        held.cancelled.set()
        if held.working_since is not None:
            # A thread cannot be killed: it ends with its handler, and another takes its slot.
            ABANDONED.labels(held.job.job_type).inc()
            self._started.give()
            self._hire()
