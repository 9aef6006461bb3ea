"""Hiding secrets that a target echoes: as they are, and as texts usually escape them."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator
from html import escape
from typing import Final
from urllib.parse import quote

from jobs.json_text import dumps

_SHORTEST: Final = 4
_MOST_TRIED: Final = 100
_PERCENT: Final = re.compile("%..")


def forms_of(secrets: Collection[str]) -> list[str]:
    """What to hide of secrets, the longest first.

    Args:
        secrets: values of headers; of `Bearer t0ken` the last word alone is hidden too, and of
            `Basic …` the name and the password.
    """
    forms = {form for secret in secrets for part in _parts(secret) for form in _forms(part)}
    # What is shorter is no secret, and may stand anywhere.
    return sorted((form for form in forms if len(form) >= _SHORTEST), key=len, reverse=True)


def veiled(text: str, forms: Iterable[str]) -> str:
    """A text without the forms of secrets in it. A target that wants to can show them otherwise."""
    for form in forms:
        text = _without_beginning(text.replace(form, "***"), form)
    return text


def _parts(secret: str) -> Iterator[str]:
    scheme, _, last = secret.rpartition(" ")
    yield from (secret, last)
    if scheme.lower() == "basic":
        try:
            pair = b64decode(last).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        name, _, password = pair.partition(":")
        yield from (pair, name, password)


def _forms(part: str) -> Iterator[str]:
    in_json = dumps(part)[1:-1]
    yield from (part, in_json, in_json.replace("/", "\\/"), escape(part))
    in_url = quote(part, safe="")
    for escaped in (in_url, _PERCENT.sub(lambda found: found[0].lower(), in_url)):
        yield from (escaped, escaped.replace("%2F", "/").replace("%2f", "/"))
        yield escaped.replace("%20", "+")


def _without_beginning(text: str, secret: str) -> str:
    """A text that does not end within a secret, where it was cut."""
    start = max(0, len(text) - len(secret) + 1)
    # A text that repeats the secret's first letters endlessly would take the event loop's time.
    for _ in range(_MOST_TRIED):
        start = text.find(secret[:_SHORTEST], start)
        if start < 0:
            return text
        if secret.startswith(text[start:]):
            break
        start += 1
    return text[:start] + "***"
