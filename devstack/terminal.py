"""One terminal for the lines of several processes: each with its source's name and colour."""

from __future__ import annotations

import threading
from typing import Final

from rich.console import Console
from rich.text import Text

from devstack.process import Child

COLOURS: Final = {
    "devstack": "bold",
    "migrate": "bright_black",
    "api": "cyan",
    "scheduler-1": "green",
    "scheduler-2": "yellow",
    "fanout-1": "bright_green",
    "fanout-2": "bright_yellow",
    "executor": "magenta",
    "reaper": "blue",
}
_WIDTH: Final = max(map(len, COLOURS))


class Terminal:
    """Standard output. No colours where NO_COLOR is set or nobody looks (rich decides)."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, markup=False)

    def say(self, text: str, source: str = "devstack") -> None:
        """Print a text; each of its lines gets the source in front."""
        for line in text.splitlines():
            prefix = (f"{source:<{_WIDTH}} | ", COLOURS[source])
            self.console.print(Text.assemble(prefix, line), soft_wrap=True)

    def show(self, child: Child, source: str) -> threading.Thread:
        """Print what the child writes to its pipe, in a thread that ends with the pipe."""
        thread = threading.Thread(target=self._read, args=(child, source), daemon=True)
        thread.start()
        return thread

    def _read(self, child: Child, source: str) -> None:
        if child.stdout is not None:
            for line in child.stdout:
                self.say(line.decode(errors="replace"), source)
