"""What environment variables may hold: parsers, which raise ValueError with the end of a sentence.

Durations are written as in Go: `500ms`, `30s`, `5m`, `1h30m`.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Callable
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h))+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
# https://github.com/fernet/spec/blob/master/Spec.md
_FERNET_BYTES = 32
# Added to an instant it stays a date.
_LONGEST = timedelta(days=36_525)
# https://www.mongodb.com/docs/manual/reference/limits/#naming-restrictions
_DATABASE = re.compile(r'[^\s/\\."$*<>:|?\0]{1,63}')

Network = IPv4Network | IPv6Network


def parse_duration(text: str) -> timedelta:
    """A duration in Go's notation, such as `500ms` or `1h30m`.

    Raises:
        ValueError: not a duration, or no unit.
    """
    if not _DURATION.fullmatch(text):
        raise ValueError("must be a duration such as 500ms, 30s, 5m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if seconds > _LONGEST.total_seconds():
        raise ValueError("must be a duration of 100 years at most")
    return timedelta(seconds=seconds)


def positive_duration(text: str) -> timedelta:
    """A duration longer than zero."""
    duration = parse_duration(text)
    if duration <= timedelta(0):
        raise ValueError("must be longer than zero")
    return duration


def integer(low: int, high: int) -> Callable[[str], int]:
    """A whole number within bounds."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(text)

    return parse


def choice(*options: str) -> Callable[[str], str]:
    """One of some words."""

    def parse(text: str) -> str:
        if text not in options:
            raise ValueError(f"must be one of: {', '.join(options)}")
        return text

    return parse


def words(text: str) -> tuple[str, ...]:
    """One or more words, separated by commas."""
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise ValueError("must name at least one, separated by commas")
    return words


def addresses(text: str) -> tuple[str, ...]:
    """One or more of host:port."""
    addresses = tuple(word.removeprefix("http://").rstrip("/") for word in words(text))
    for address in addresses:
        host, _, port = address.rpartition(":")
        if (
            not host
            or "/" in host
            or not re.fullmatch("[0-9]{1,5}", port)
            or not 0 < int(port) < 65536
        ):
            raise ValueError(f"{address!r} must be host:port")
    return addresses


def boolean(text: str) -> bool:
    """True or false, in the usual words."""
    if text.lower() not in {"1", "true", "yes", "on", "0", "false", "no", "off"}:
        raise ValueError("must be true or false")
    return text.lower() in {"1", "true", "yes", "on"}


def database(text: str) -> str:
    """The name of a MongoDB database."""
    if not _DATABASE.fullmatch(text) or len(text.encode(errors="replace")) > 63:
        raise ValueError('must be a name of up to 63 bytes without spaces and /\\."$*<>:|?')
    return text


def mongo_uri(text: str) -> str:
    """A MongoDB connection string."""
    if not text.startswith(("mongodb://", "mongodb+srv://")):
        raise ValueError("must begin with mongodb:// or mongodb+srv://")
    return _with_encoded_credentials(text)


def redis_url(text: str) -> str:
    """The address of a Redis."""
    if not re.fullmatch(r"rediss?://\S+", text):
        raise ValueError("must begin with redis:// or rediss://")
    return _with_encoded_credentials(text)


def web_address(text: str) -> str:
    """The URL of a server that is spoken to by HTTP, without a password."""
    if not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#\s]*)?", text):
        raise ValueError("must be a URL such as http://host:4318/v1/traces, without a password")
    return text


def fraction(text: str) -> float:
    """A number from 0 to 1."""
    if not re.fullmatch(r"[01](\.[0-9]{1,9})?", text) or float(text) > 1:
        raise ValueError("must be a number from 0 to 1")
    return float(text)


def _with_encoded_credentials(url: str) -> str:
    credentials, at, _ = url.partition("://")[2].rpartition("@")
    # Unescaped, a part of a password passes for a host or port, and the driver's error shows it.
    if at and not re.fullmatch(r"[^:/?#@]*(:[^:/?#@]*)?", credentials):
        raise ValueError("must have its user and password percent-encoded")
    return url


def networks(text: str) -> tuple[Network, ...]:
    """One or more networks as CIDR."""
    try:
        return tuple(ip_network(word) for word in words(text))
    except ValueError as exc:
        raise ValueError(f"must be networks such as 10.0.0.0/8 or ::1/128: {exc}") from exc


def fernet_keys(text: str) -> tuple[str, ...]:
    """One or more Fernet keys."""
    keys = words(text)
    for position, key in enumerate(keys, start=1):
        try:
            is_key = len(urlsafe_b64decode(key.encode())) == _FERNET_BYTES
        except ValueError:
            is_key = False
        if not is_key:
            raise ValueError(f"key {position} must be 32 bytes in URL-safe base64")
    return keys


def silenced(text: str) -> tuple[str, ...]:
    """Ids of checks, each with the reason why it does not apply: `id: reason; id: reason`."""
    entries = [entry for entry in text.split(";") if entry.strip()]
    for entry in entries:
        if not re.fullmatch(r"\s*[a-z_]+\.[EWI][0-9]{3}\s*:.*\w.*", entry, re.DOTALL):
            raise ValueError(f"{entry.strip()!r:.60} must be id: reason, such as chronos.W001: ...")
    return tuple(entry.partition(":")[0].strip() for entry in entries)


def asked_at(host: str) -> str:
    """Where this machine asks who listens on an address: one that means all addresses is no target.

    Args:
        host: as METRICS_HOST or API_HOST has it.

    Returns:
        A host as URLs want it: that of IPv6 in brackets.
    """
    bare = host.strip("[]")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bare, bare)  # noqa: S104 (read, not listened on)
    return f"[{host}]" if ":" in host else host


def anything(text: str) -> str:
    """Whatever stands there."""
    return text
