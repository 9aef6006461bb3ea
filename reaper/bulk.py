"""Does the bulk operations, part by part. Any number of reapers may: each part is done by one."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta
from typing import Final

from jobs.errors import StoreUnavailable
from jobs.logs import events
from jobs.repository import Repository

logger = logging.getLogger(__name__)

_LARGEST_PART: Final = 100
_LOOK_EVERY: Final = timedelta(milliseconds=500)


class BulkRunner:
    """Takes the turns of all operations, the longest due first, and so goes on with each."""

    def __init__(
        self, name: str, rate: int, *, repository: Repository, stop: threading.Event
    ) -> None:
        """
        Args:
            name: of this process.
            rate: dead letters a second that one operation moves, at most.
            repository: where the operations are.
            stop: ends a sleep.
        """
        self._name = name
        self._size = min(rate, _LARGEST_PART)
        self._pause = timedelta(seconds=1) / rate
        self._repository = repository
        self._stop = stop
        self._sleep = timedelta(0)

    def run_once(self, now: datetime) -> bool:
        """Do the next part that may be done now. True: look again at once."""
        turn = self._repository.bulk.next_turn()
        if turn is None or turn.at > now:
            self._sleep = _LOOK_EVERY if turn is None else min(turn.at - now, _LOOK_EVERY)
            return False
        try:
            self._repository.bulk.take_turn(
                turn.operation_id, size=self._size, pause=self._pause, runner=self._name, now=now
            )
        except StoreUnavailable:
            raise
        except Exception as exc:
            # It would be the next again, before all others.
            extra = events.BULK_GIVEN_UP(operation_id=str(turn.operation_id))
            logger.exception("bulk operation %s is given up", turn.operation_id, extra=extra)
            reason = f"It cannot be gone on with: {exc}"[:1_000]
            self._repository.bulk.fail(turn.operation_id, reason, runner=self._name, now=now)
        return True

    def wait(self) -> None:
        """Until the next turn, or until it is time to look for one."""
        self._stop.wait(self._sleep.total_seconds())
