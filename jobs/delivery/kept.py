"""Secrets that go from one delivery to another without being said again, and where they may go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx

from jobs.delivery.fields import SECRET_FIELDS
from jobs.errors import InvalidJob

SHOWN_ONLY: Final = frozenset({"hasSecret", "secretHeaderNames"})
"""What is shown of a delivery's secrets: may be sent back, and says nothing."""
_PORTS: Final = {"http": 80, "https": 443}


def without_removals(given: Mapping[str, Any]) -> dict[str, Any]:
    """A delivery as a client sent it for a new version, without what only removes secrets."""
    delivery = {name: value for name, value in given.items() if name not in SHOWN_ONLY}
    headers = delivery.get("secretHeaders")
    if isinstance(headers, dict):
        delivery["secretHeaders"] = {n: value for n, value in headers.items() if value is not None}
    return {n: v for n, v in delivery.items() if n not in SECRET_FIELDS or v not in (None, {})}


def kept(given: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """The secrets that a delivery has from another one: those that it neither gives nor removes.

    Args:
        given: the delivery of a new version, or of a job, as a client sent it; null removes a
            secret, or a secret header.
        old: what is stored of the version before, or of the job's definition.

    Raises:
        InvalidJob: they would go to another origin than they were given for.
    """
    secrets: dict[str, Any] = {}
    if "secret" in old and "secret" not in given:
        secrets["secret"] = old["secret"]
    named = given.get("secretHeaders", {})
    if isinstance(named, dict):
        lower = {name.lower() for name in named}
        headers = {n: v for n, v in old.get("secretHeaders", {}).items() if n.lower() not in lower}
        if headers:
            secrets["secretHeaders"] = headers
    if secrets:
        _require_origin(given, old)
    return secrets


def _require_origin(delivery: Mapping[str, Any], owner: Mapping[str, Any]) -> None:
    # Whoever may schedule, or change a definition, could otherwise have secrets sent to himself.
    wanted, allowed = _origin(delivery.get("url")), _origin(owner.get("url"))
    if wanted is not None and wanted != allowed:
        raise InvalidJob(
            "delivery.url",
            f"must stay at {allowed}, for which the definition's secrets were given: give secrets"
            " anew, or make another definition",
        )


def _origin(url: object) -> str | None:
    if not isinstance(url, str):
        return None
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return url
    port = parsed.port or _PORTS.get(parsed.scheme)
    return f"{parsed.scheme}://{parsed.host}:{port}"
