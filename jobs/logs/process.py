"""Which process a line comes from; and lines of what else would write to standard error."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Mapping

from jobs.logs import events

logger = logging.getLogger(__name__)

_identity = {"role": "command", "process": f"{socket.gethostname()}-{os.getpid()}"}


def identify(role: str, name: str) -> None:
    """Say who this process is, for all lines to come; have warnings and lost threads be lines too.

    Args:
        role: as in the name of its command: `runapi` is `api`.
        name: unique per process.
    """
    _identity.update(role=role, process=name)
    logging.captureWarnings(capture=True)
    threading.excepthook = _log_failure


def identity() -> Mapping[str, str]:
    """Who this process is: `role` and `process`."""
    return _identity


def _log_failure(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_value is not None:
        name = failure.thread.name if failure.thread else "?"
        extra = events.THREAD_FAILED(thread_name=name)
        logger.error("the thread %s ended", name, exc_info=failure.exc_value, extra=extra)
