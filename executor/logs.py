"""What handlers log during an attempt: caught, bounded, and streamed to MongoDB."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from executor.metrics import DROPPED_LOG_LINES
from jobs.executions import LogLine
from jobs.logs import events
from jobs.loop import persist
from jobs.repository.attempt_logs import AttemptLogStore, LogBatch

logger = logging.getLogger(__name__)

LINE_LENGTH: Final = 8 << 10
"""Characters kept of one line."""
ATTEMPT_LENGTH: Final = 256 << 10
"""Characters kept of all lines of one attempt."""
# Characters that wait for MongoDB, at most.
_WAITING_LENGTH: Final = 16 << 20
_FLUSH_SECONDS: Final = 0.25
_FLUSH_LINES: Final = 500

Take = Callable[[LogLine], None]

# How an attempt ended is the executor's word, also while a handler that was given up goes on.
_ENDS: Final = frozenset(
    end.name for end in (events.ATTEMPT_ENDED, events.ATTEMPT_FAILED, events.JOB_DEAD)
)

_current: ContextVar[str | None] = ContextVar("execution_id", default=None)
_formatter = logging.Formatter()


class Catcher(logging.Handler):
    """Sorts what is logged in this process by attempt; belongs on the root logger.

    A record belongs to the attempt that it names (`execution_id`, as `context.logger` adds it in
    whatever thread), else to the one in whose thread or asyncio task it was made.
    """

    def __init__(self) -> None:
        super().__init__()
        self._takers: dict[str, Take] = {}

    @contextmanager
    def catching(self, execution_id: str, take: Take) -> Iterator[None]:
        """Give the lines of an attempt to `take`, to the end of the block and never later."""
        self._takers[execution_id] = take
        token = _current.set(execution_id)
        try:
            yield
        finally:
            _current.reset(token)
            # Held while a record is handled, so that none of this attempt's is under way now.
            self.acquire()
            del self._takers[execution_id]
            self.release()

    def emit(self, record: logging.LogRecord) -> None:
        """Called by `logging` for each record."""
        try:
            if getattr(record, "event", None) in _ENDS:
                return
            named = getattr(record, "execution_id", None) or _current.get()
            if named is not None and (take := self._takers.get(named)):
                take(_line(record))
        except Exception:  # noqa: BLE001 - as in every handler: logging breaks no caller
            # The line on standard error tells of it.
            return


def _line(record: logging.LogRecord) -> LogLine:
    return LogLine(
        at=datetime.fromtimestamp(record.created, UTC),
        level=_cut(record.levelname),
        logger=_cut(record.name),
        message=_cut(_formatter.format(record)),
    )


def _cut(text: str) -> str:
    """The beginning of a text, without lone surrogates, which MongoDB does not store."""
    kept = text[:LINE_LENGTH].encode("utf-8", "replace").decode()
    return kept if len(text) <= LINE_LENGTH else kept + "…"


@dataclass(slots=True, eq=False)
class _Attempt:
    """What is kept of one attempt, and what is not."""

    execution_id: str
    lines_left: int
    length_left: int = ATTEMPT_LENGTH
    taken: int = 0
    """Lines that went into batches."""
    dropped: int = 0


_Entry = tuple[_Attempt, LogLine]


class AttemptLogs:
    """One thread that writes what collects, a few times a second.

    A handler never waits for it: while MongoDB is away, lines beyond what memory holds are dropped,
    counted and told.
    """

    def __init__(
        self,
        store: AttemptLogStore,
        *,
        lines: int,
        clock: Callable[[], datetime],
        give_up: threading.Event,
    ) -> None:
        """Begin to catch, and start the thread.

        Args:
            store: where the lines go.
            lines: kept of one attempt; 0: none.
            clock: the store's time.
            give_up: set when MongoDB is no longer waited for.
        """
        self._store = store
        self._lines = lines
        self._clock = clock
        self._give_up = give_up
        self._catcher = Catcher()
        self._waiting: list[_Entry] = []
        self._waiting_length = 0
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        if lines:
            logging.getLogger().addHandler(self._catcher)
            self._thread.start()

    @contextmanager
    def capturing(self, execution_id: str) -> Iterator[Take]:
        """Keep what is logged in the block, by this thread or asyncio task, as an attempt's lines.

        Yields:
            A function that takes lines which were logged elsewhere.
        """
        if not self._lines:
            yield _ignore
            return
        attempt = _Attempt(execution_id, self._lines)
        take = partial(self._take, attempt)
        try:
            with self._catcher.catching(execution_id, take):
                yield take
        finally:
            if attempt.dropped:
                self._tell_dropped(attempt)

    def close(self) -> None:
        """Catch no more, write what is left, then end."""
        logging.getLogger().removeHandler(self._catcher)
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._lines:
            self._thread.join()

    def _take(self, attempt: _Attempt, line: LogLine) -> None:
        length = len(line.message) + len(line.logger)
        with self._changed:
            if not attempt.lines_left or length > attempt.length_left:
                # Nothing later is kept either, however short.
                attempt.lines_left = 0
                reason = "limit"
            elif self._waiting_length + length > _WAITING_LENGTH:
                reason = "backlog"
            else:
                attempt.lines_left -= 1
                attempt.length_left -= length
                self._put(attempt, line)
                return
            attempt.dropped += 1
        DROPPED_LOG_LINES.labels(reason).inc()

    def _tell_dropped(self, attempt: _Attempt) -> None:
        text = f"{attempt.dropped} more lines were not kept"
        with self._changed:
            self._put(attempt, LogLine(datetime.now(UTC), "WARNING", __name__, text))

    def _put(self, attempt: _Attempt, line: LogLine) -> None:
        self._waiting.append((attempt, line))
        self._waiting_length += len(line.message) + len(line.logger)
        if len(self._waiting) in (1, _FLUSH_LINES):
            self._changed.notify()

    def _run(self) -> None:
        while entries := self._collect():
            try:
                self._write(_batches(entries))
            except Exception:  # the lines of later attempts must not suffer
                extra = events.HANDLER_LINES_REFUSED(count=len(entries))
                logger.exception("%d lines of handlers were refused", len(entries), extra=extra)

    def _collect(self) -> list[_Entry]:
        """What has come in; nothing at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._changed.wait_for(
                lambda: len(self._waiting) >= _FLUSH_LINES or self._closing, _FLUSH_SECONDS
            )
            entries, self._waiting, self._waiting_length = self._waiting, [], 0
            return entries

    def _write(self, batches: Sequence[LogBatch]) -> None:
        def append() -> int:
            now = self._clock()
            # Lines carry the time of this machine; all that is stored goes by the store's.
            ahead = now - datetime.now(UTC)
            return self._store.append([_shifted(batch, ahead) for batch in batches], now=now)

        if persist(append, stop=self._give_up) is None:
            lost = sum(len(batch.lines) for batch in batches)
            DROPPED_LOG_LINES.labels("backlog").inc(lost)
            extra = events.HANDLER_LINES_LOST(count=lost)
            logger.error(
                "%d lines of handlers were not written: MongoDB is away", lost, extra=extra
            )


def _ignore(line: LogLine) -> None:
    pass


def _batches(entries: Sequence[_Entry]) -> list[LogBatch]:
    by_attempt: dict[_Attempt, list[LogLine]] = {}
    for attempt, line in entries:
        by_attempt.setdefault(attempt, []).append(line)
    batches = []
    for attempt, lines in by_attempt.items():
        is_truncated = attempt.dropped > 0
        batches.append(LogBatch(attempt.execution_id, attempt.taken, lines, is_truncated))
        attempt.taken += len(lines)
    return batches


def _shifted(batch: LogBatch, ahead: timedelta) -> LogBatch:
    return replace(batch, lines=[replace(line, at=line.at + ahead) for line in batch.lines])
