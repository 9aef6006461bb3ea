"""Secrets in payloads and results, hidden from whoever reads them on a page or in the audit log.

What a member is called decides. Handlers get the real values, and so do clients of the API.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from jobs.json_text import NotJson, dumps, loads

MASK: Final = "***"
SECRET_NAMES: Final = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "authorization"),
    *("credential", "cookie", "apikey", "accesskey", "privatekey"),
)
"""A member is masked whose name has one of these in it, without regard to case and separators."""

# Of a delivery: they say which secrets there are, and hold none.
_NO_SECRETS: Final = frozenset({"hasSecret", "secretHeaderNames"})
_SEPARATORS: Final = re.compile(r"[\W_]+")


def masked(value: Any) -> Any:
    """A JSON value whose secrets are masked, also those in texts that are JSON themselves."""
    if isinstance(value, Mapping):
        return {
            name: MASK if _is_secret(name, member) else masked(member)
            for name, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    if isinstance(value, str):
        return _masked_text(value)
    return value


def _is_secret(name: str, value: Any) -> bool:
    # Whether there is one at all, and that there is none, may be known.
    if value is None or isinstance(value, bool) or name in _NO_SECRETS:
        return False
    plain = _SEPARATORS.sub("", name).lower()
    return any(secret in plain for secret in SECRET_NAMES)


def _masked_text(text: str) -> str:
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value = loads(text)
        shown = masked(value)
        return text if shown == value else dumps(shown)
    except NotJson:
        return text
    except RecursionError:
        # It can be read, but not looked through.
        return MASK
