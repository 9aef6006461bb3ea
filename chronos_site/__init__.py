"""Django's plumbing around the scheduler: settings, environment, urls."""

from typing import Final

VERSION: Final = "0.1.0"
"""That of `pyproject.toml`, which is not there where only the code was copied."""
