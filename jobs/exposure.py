"""Stored values as people may see them: without secrets, and nothing that JSON lacks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from bson import ObjectId

from jobs.delivery.config import without_secrets
from jobs.errors import InvalidJob
from jobs.instants import format_instant
from jobs.json_text import NotJson, loads
from jobs.masking import masked

_HIDDEN: Final = frozenset(
    # What only the roles need. The last is when the action itself happened.
    {
        *("_id", "shard", "kind", "claimId", "dlqPublishedAt", "errorGroup", "overrides"),
        *("uses", "lastUse", "updatedAt"),
    }
)
_JSON_TEXTS: Final = frozenset({"payload", "result"})


def exposed_text(text: str) -> Any:
    """A stored JSON text as it is shown."""
    try:
        return loads(text)
    except NotJson:
        # Somebody edited it by hand: better its text than no answer.
        return text


def exposed_delivery(text: str) -> Any:
    """A stored delivery as it is shown, without its secrets."""
    try:
        return without_secrets(text)
    except InvalidJob as exc:
        # Somebody edited it by hand: its text may hold what nobody should see.
        return f"cannot be shown: {exc}"


def exposed_value(value: Any) -> Any:
    """Any stored value, also of a type that it should not have."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, ObjectId):
        return str(value)
    if isinstance(value, Mapping):
        return {key: exposed_value(member) for key, member in value.items()}
    if isinstance(value, list):
        return [exposed_value(item) for item in value]
    return repr(value)


def changes(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a write to a job or definition changed, as it is shown: before, and after.

    A field whose secret alone changed is there, looking the same: also secrets in a payload are
    masked.

    Args:
        before: the document as it was; None: it is new.
        after: the document as it became; None: it is gone.
    """
    old, new = before or {}, after or {}
    # In the order of the document.
    names = [
        name
        for name in dict.fromkeys((*old, *new))
        if name not in _HIDDEN and (name in old, old.get(name)) != (name in new, new.get(name))
    ]
    return (
        {name: _exposed_field(name, old[name]) for name in names if name in old},
        {name: _exposed_field(name, new[name]) for name in names if name in new},
    )


def _exposed_field(name: str, value: Any) -> Any:
    if name == "delivery":
        return masked(exposed_delivery(str(value)))
    if name in _JSON_TEXTS and isinstance(value, str):
        return masked(exposed_text(value))
    return exposed_value(value)
