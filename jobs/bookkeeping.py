"""Counting the ends of attempts, without holding up who ends them."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping

from jobs.errors import StoreUnavailable
from jobs.lifecycle import Finish, Job
from jobs.logs import events
from jobs.repository.statistics import StatisticsStore
from jobs.statistics import Ledger, Stretch, Tally

logger = logging.getLogger(__name__)


class Bookkeeper:
    """Counts in memory, and stores the counts when told.

    What a process has counted and not stored is lost when it is killed: seconds of a chart.
    """

    def __init__(self, store: StatisticsStore) -> None:
        self._store = store
        self._ledger = Ledger()
        self._batch = ""
        self._taken: Mapping[Stretch, Tally] = {}

    def note(self, endings: Iterable[tuple[Job, Finish]]) -> None:
        """Count attempts whose ends are stored."""
        self._ledger.note(endings)

    def flush(self) -> None:
        """Store the counts. From one thread at a time.

        Raises:
            StoreUnavailable: nothing is lost, and nothing counted twice by the next call.
        """
        if not self._taken:
            self._batch, self._taken = secrets.token_hex(6), self._ledger.take()
        taken, self._taken = self._taken, {}
        try:
            refused = self._store.add(taken, batch=self._batch)
        except StoreUnavailable:
            self._taken = taken
            raise
        if refused:
            extra = events.STATISTICS_REFUSED(count=refused)
            logger.warning(
                "%d documents of the statistics refused their counts", refused, extra=extra
            )

    def close(self) -> None:
        """Store what is left, if MongoDB answers."""
        try:
            # What an earlier call could not store, then what came since.
            self.flush()
            self.flush()
        except StoreUnavailable as exc:
            extra = events.STATISTICS_LOST(error=exc)
            logger.warning("the last seconds are missing in the statistics: %s", exc, extra=extra)
