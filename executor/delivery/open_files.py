"""The operating system's limit of connections."""

from __future__ import annotations

import resource

from jobs.errors import ConfigError

_OTHERS = 300
"""Connections to MongoDB and Kafka, libraries, pipes of child processes."""


def allow_open_files(concurrency: int) -> None:
    """Have the system allow what so many deliveries at once need.

    Raises:
        ConfigError: it allows fewer; deliveries would fail without a fault of their targets.
    """
    # A quarter more may be kept for reuse.
    needed = concurrency + concurrency // 4 + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft in range(needed):
        if hard in range(needed):
            raise ConfigError(
                f"DELIVERY_CONCURRENCY={concurrency} needs {needed} open files, and this process"
                f" may have {hard}. Lower it, or raise the limit (ulimit -Hn)."
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
