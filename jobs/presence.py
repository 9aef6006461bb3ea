"""A process stands in the register of live processes as long as it serves its role."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Final

from jobs.errors import StoreUnavailable
from jobs.logs import events
from jobs.repeating import Repeater
from jobs.repository import Repository
from jobs.repository.nodes import Node

logger = logging.getLogger(__name__)

REPORT_EVERY: Final = timedelta(seconds=2)


class Presence:
    """Reports in a thread, from the beginning to the end of a `with` block.

    For the roles whose reports only people read; an executor's heartbeat reports what it can take.
    """

    def __init__(
        self,
        repository: Repository,
        name: str,
        role: str,
        describe: Callable[[Node], Node] = lambda node: node,
    ) -> None:
        """A process that is not in the register yet.

        Args:
            repository: where the register is.
            name: unique per process.
            role: what it serves.
            describe: adds to each report how things are.
        """
        self._repository = repository
        self._name = name
        self._role = role
        self._describe = describe
        self._started_at: datetime | None = None

    def __enter__(self) -> None:
        self._reports = Repeater(self._report, every=REPORT_EVERY, name="presence")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reports.close()
        try:
            self._repository.nodes.remove(self._name)
        except StoreUnavailable as exc:
            extra = events.STILL_REGISTERED(error=exc)
            logger.warning("still registered as alive, for some seconds: %s", exc, extra=extra)

    def _report(self) -> None:
        now = self._repository.clock.now()
        self._started_at = self._started_at or now
        node = Node(self._name, self._role, self._started_at)
        self._repository.nodes.report(self._describe(node), now=now)
