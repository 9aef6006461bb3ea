"""Values as JSON for people to read, and to edit."""

from __future__ import annotations

import json
from typing import Any

from jobs.masking import masked


def pretty(value: Any) -> str:
    """JSON with one member a line."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def readable(value: Any) -> str:
    """The same for people who only read it: with its secrets masked."""
    return pretty(masked(value))
