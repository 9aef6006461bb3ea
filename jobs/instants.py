"""Instants as the API writes them: RFC 3339, always with an offset."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC_3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))",
    re.ASCII | re.IGNORECASE,
)
_EXAMPLE: Final = "2026-09-29T18:00:00Z"


def parse_instant(text: str) -> datetime:
    """The instant that an RFC 3339 text names, in UTC and whole milliseconds (the rest is cut off).

    Raises:
        ValueError: what is wrong, as the end of a sentence that begins with the field's name.
    """
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise ValueError(f"must be RFC 3339 with an offset or Z, such as {_EXAMPLE}")
    year, month, day, hour, minute, second, fraction, sign, off_hour, off_minute = match.groups()
    if second == "60":
        raise ValueError("must not be a leap second (second 60)")
    zone: timezone = UTC
    if sign is not None:
        if off_hour > "23" or off_minute > "59":
            raise ValueError("must have an offset of less than 24 hours")
        offset = timedelta(hours=int(off_hour), minutes=int(off_minute))
        zone = timezone(offset if sign == "+" else -offset)
    micros = int(fraction[:3].ljust(3, "0")) * 1000 if fraction else 0
    instant: datetime | None
    try:
        instant = datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second), micros, zone
        ).astimezone(UTC)
    except ValueError as exc:
        raise ValueError(f"names no existing date and time ({exc})") from exc
    except OverflowError:
        instant = None
    if instant is None or instant < EARLIEST:
        raise ValueError("must be in the years 1970 to 9999 (UTC)")
    return instant


def format_instant(at: datetime) -> str:
    """A UTC instant as RFC 3339 with `Z`; milliseconds only where there are some."""
    precision = "milliseconds" if at.microsecond >= 1000 else "seconds"
    return at.replace(tzinfo=None).isoformat(timespec=precision) + "Z"
