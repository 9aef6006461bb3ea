"""A wall clock that a test sets, for processes of their own."""

from __future__ import annotations

from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path


class WallClock:
    """What `time()` says in processes that have this environment; all other clocks go on.

    By the wheel `libfaketime`, whose library stands between a program and the C library. etcd, as
    any Go program, asks the kernel itself.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / "wall-clock"
        self.jump(timedelta(0))

    @property
    def environment(self) -> dict[str, str]:
        package = find_spec("libfaketime")
        assert package is not None
        assert package.origin is not None
        library = Path(package.origin).with_name("vendor") / "libfaketime/src/libfaketime.so.1"
        assert library.exists()
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            # Look into the file at every call.
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }

    def jump(self, to: timedelta) -> None:
        """Set the clock so much ahead of the machine's."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{to.total_seconds():+f}")
        # In one step, so that nobody reads half of it.
        new.replace(self._file)
