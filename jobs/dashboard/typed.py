"""What people type into fields, as the values that it stands for."""

from __future__ import annotations

from datetime import UTC, datetime


def typed_instant(text: str) -> datetime | None:
    """What a browser sends of a field `datetime-local` that is labelled UTC; None: nothing.

    Raises:
        ValueError: it is no instant. The text is a sentence for the person.
    """
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise ValueError("This is no time, such as 2026-11-30T12:00.") from exc
