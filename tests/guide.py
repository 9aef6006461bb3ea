"""The program text of docs/handlers.md, for the tests that run it."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).resolve().parent.parent / "docs" / "handlers.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[str]:
    """Every block of Python on the page."""
    return _BLOCK.findall(_PAGE.read_text())


def example(path: str) -> str:
    """The block that says in its first line which file it is."""
    (block,) = [block for block in blocks() if block.startswith(f"# {path}\n")]
    return block
