"""What a target answered: as much of its text as is kept, and when it wants to be asked again."""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncGenerator, AsyncIterable, Collection, Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final, cast

from executor.delivery.veil import forms_of, veiled

EXCERPT_BYTES: Final = 64 << 10
"""Read of an answer's body, at most."""
SOONEST: Final = timedelta(seconds=1)
LATEST: Final = timedelta(days=30)
"""Bounds of what Retry-After is heeded for."""

_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
# Python knows codecs that are no charsets, and some that take quadratic time or give surrogates.
_TEXT_CODEC: Final = re.compile(
    r"ascii|utf-(8|16|32).*|iso8859-.*|cp[0-9]+|koi8-.*|mac-.*|gb.*|big5.*|shift_?jis.*|euc_.*"
)


async def beginning(body: AsyncIterable[bytes], into: bytearray) -> None:
    """Read the first 64 KiB of a body; what has arrived is in `into` also if this is cut short."""
    # A generator that is left in the middle would be closed at some later time.
    chunks = cast("AsyncGenerator[bytes, None]", aiter(body))
    async with aclosing(chunks):
        async for chunk in chunks:
            into += chunk[: EXCERPT_BYTES - len(into)]
            if len(into) == EXCERPT_BYTES:
                return


def excerpt(body: bytes, headers: Mapping[str, str], secrets: Collection[str]) -> str:
    """A body as text that can be stored and shown.

    Args:
        body: its beginning.
        headers: of the answer, by name in lower case.
        secrets: values of headers, which its target may have echoed.
    """
    if (encoding := headers.get("content-encoding", "identity").lower()) != "identity":
        # Not asked for, and unpacking could make gigabytes of it.
        return f"({len(body)} bytes, {encoding[:20]})"
    found = _CHARSET.search(headers.get("content-type", ""))
    hidden = forms_of(secrets)
    # Before it is decoded too: what is said to be UTF-16 may be ASCII all the same.
    body = veiled(body.decode("latin-1"), hidden).encode("latin-1")
    text = body.decode(_codec(found[1]) if found else "utf-8", "replace")
    return veiled(text, hidden).replace("\0", "\N{REPLACEMENT CHARACTER}")


def _codec(charset: str) -> str:
    try:
        name = codecs.lookup(charset).name
    except LookupError:
        return "utf-8"
    return name if _TEXT_CODEC.fullmatch(name) else "utf-8"


def retry_after(value: str | None, now: datetime) -> timedelta | None:
    """How long a target asks to be left alone, from a second to 30 days.

    Args:
        value: of the header Retry-After: seconds, or a date in any form that HTTP has had.
        now: aware UTC.

    Returns:
        None when it asks for nothing that can be understood.
    """
    if value is None:
        return None
    value = value.strip()
    if _DIGITS.fullmatch(value):
        wait = timedelta(seconds=min(int(value), LATEST.total_seconds()))
    else:
        try:
            at = parsedate_to_datetime(value)
            wait = at.replace(tzinfo=at.tzinfo or UTC) - now
        except (ValueError, OverflowError):
            return None
    return min(max(wait, SOONEST), LATEST)
