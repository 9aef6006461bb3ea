"""Taking from a queue whatever is there."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")


def batches(queue: SimpleQueue[T | None], *, limit: int) -> Iterator[list[T]]:
    """Batches of what is in the queue, waiting for the first item of each.

    What collects while one batch is worked on makes the next: small under light load, large under
    heavy load, without a timer. None in the queue ends it.
    """
    while (item := queue.get()) is not None:
        batch = [item]
        while len(batch) < limit:
            try:
                item = queue.get_nowait()
            except Empty:
                break
            if item is None:
                yield batch
                return
            batch.append(item)
        yield batch
