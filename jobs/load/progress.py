"""How far a command is, on standard error: a bar in a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

_BAR_SECONDS: Final = 0.1
_LINE_SECONDS: Final = 5.0


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show the way to `total`.

    Yields:
        A function to call, often and from any thread, with how many are done.
    """
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _seldom(lambda done: console.print(f"{title}: {done} of {total}"), _LINE_SECONDS)
        return
    columns = (*Progress.get_default_columns()[:3], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield _seldom(lambda done: bar.update(task, completed=done), _BAR_SECONDS)


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show that something is waited for whose progress is not known."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console.print(title)
        yield
        return
    with console.status(title):
        yield


def _seldom(show: Callable[[int], None], seconds: float) -> Callable[[int], None]:
    shown_at = time.monotonic()

    def advance(done: int) -> None:
        nonlocal shown_at
        now = time.monotonic()
        if now - shown_at >= seconds:
            shown_at = now
            show(done)

    return advance
