"""One stack per data directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack.process import DevstackError


@contextmanager
def only_one(directory: Path) -> Iterator[None]:
    """Hold the directory's lock. The kernel gives it back when this process ends, however it ends.

    Raises:
        DevstackError: another process holds it, or the directory cannot be used.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / "lock").open("a+")
    except OSError as exc:
        raise DevstackError(
            f"{directory} cannot be used ({exc.strerror}). Set DEVSTACK_DIR to another folder."
        ) from exc
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            file.seek(0)
            raise DevstackError(
                f"A devstack (process {file.read().strip()}) already runs on {directory}. "
                "Stop it, or set DEVSTACK_DIR to another folder."
            ) from exc
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
