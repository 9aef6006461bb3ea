"""Where and how a job is delivered: read from what is stored, merged, and shown without secrets.

In a job and in a definition a delivery is one JSON text; its secrets in it are sealed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jobs.delivery.fields import DEFAULT_TIMEOUT_SECONDS, DELIVERY_FIELDS, SECRET_FIELDS
from jobs.delivery.secrets import Secrets
from jobs.errors import InvalidJob
from jobs.fields import check_string
from jobs.json_text import NotJson, dumps, kind_of, loads
from jobs.wording import unknown_name

HTTP: Final = "http"
KAFKA: Final = "kafka"
DELIVERY_TYPES: Final = frozenset(DELIVERY_FIELDS)
"""The job types that are delivered, not handled: they need a `delivery`."""


@dataclass(frozen=True, slots=True)
class HttpDelivery:
    """A request to make."""

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    """A template (`jobs.delivery.body`); None: the payload."""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    expected_statuses: tuple[int | str, ...] = ()
    """Empty: 2xx."""
    secret: str | None = None
    """Sealed; signs the request."""
    secret_headers: Mapping[str, str] = field(default_factory=dict)
    """Each value sealed."""

    def open_headers(self, secrets: Secrets) -> dict[str, str]:
        """All headers, the secret ones in clear. Raises SecretUnreadable."""
        opened = {name: secrets.open(value) for name, value in self.secret_headers.items()}
        return {**self.headers, **opened}


@dataclass(frozen=True, slots=True)
class KafkaDelivery:
    """A message to produce."""

    topic: str
    key: str | None = None
    """A template; None: no key."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    """A template; None: the payload."""


_KINDS: Final[Mapping[str, type[HttpDelivery | KafkaDelivery]]] = {
    HTTP: HttpDelivery,
    KAFKA: KafkaDelivery,
}


def delivery_from(job_type: str, document: object, secrets: Secrets) -> dict[str, Any]:
    """A delivery as a client wrote it, checked, with its secrets sealed. May be partial.

    Raises:
        InvalidJob: something in it cannot be used. The text names it.
    """
    if not isinstance(document, dict):
        raise InvalidJob("delivery", f"must be an object, not {kind_of(document)}")
    fields = DELIVERY_FIELDS[job_type]
    delivery = {}
    for name, value in document.items():
        if name not in fields:
            raise InvalidJob("delivery", unknown_name(name, fields, "has no field {}"))
        try:
            checked = fields[name].check(value)
            delivery[name] = _sealed(checked, secrets.seal) if name in SECRET_FIELDS else checked
        except ValueError as exc:
            raise InvalidJob(f"delivery.{name}", str(exc)) from exc
    return delivery


def require_complete(job_type: str, delivery: Mapping[str, Any]) -> None:
    """Raise InvalidJob when a required field is missing."""
    for name, each in DELIVERY_FIELDS[job_type].items():
        if each.required and name not in delivery:
            raise InvalidJob(f"delivery.{name}", "is required")


def merged(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """One delivery over another: fields replace fields, and headers replace headers by name."""
    result = {**base, **override}
    for name in ("headers", "secretHeaders"):
        if name in base and name in override:
            replaced = {header.lower() for header in override[name]}
            kept = {h: value for h, value in base[name].items() if h.lower() not in replaced}
            result[name] = {**kept, **override[name]}
    return result


def delivery_text(delivery: Mapping[str, Any]) -> str:
    """A delivery as it is stored."""
    return dumps(delivery)


def decoded(text: str) -> dict[str, Any]:
    """A stored delivery, whole or partial, with its secrets sealed.

    Raises:
        InvalidJob: somebody edited it into what cannot be merged, sealed or shown.
    """
    try:
        document = loads(text)
    except NotJson as exc:
        raise InvalidJob("delivery", f"is not JSON: {exc}") from exc
    if not isinstance(document, dict):
        raise InvalidJob("delivery", f"must be an object, not {kind_of(document)}")
    for name in ("headers", "secretHeaders"):
        headers = document.get(name, {})
        if not isinstance(headers, dict) or not all(map(_is_text, headers.values())):
            raise InvalidJob(f"delivery.{name}", "must be an object of strings")
    if not _is_text(document.get("secret", "")):
        raise InvalidJob("delivery.secret", "must be a string")
    return document


def _is_text(value: object) -> bool:
    try:
        check_string(value)
    except ValueError:
        return False
    return True


def delivery_of(job_type: str, text: str | None) -> HttpDelivery | KafkaDelivery:
    """What a stored delivery says.

    Raises:
        InvalidJob: there is none, or somebody edited it so that it cannot be used.
    """
    if text is None:
        raise InvalidJob("delivery", f"is missing, and jobs of the type {job_type} need one")
    document = decoded(text)
    fields = DELIVERY_FIELDS[job_type]
    values = {}
    for name, value in document.items():
        if name not in fields:
            raise InvalidJob("delivery", unknown_name(name, fields, "has no field {}"))
        if name not in SECRET_FIELDS:
            try:
                value = fields[name].check(value)
            except ValueError as exc:
                raise InvalidJob(f"delivery.{name}", str(exc)) from exc
        values[fields[name].attribute] = value
    require_complete(job_type, document)
    return _KINDS[job_type](**values)


def without_secrets(text: str) -> dict[str, Any]:
    """A stored delivery without its secrets: only that, and under which names, there are some."""
    document = decoded(text)
    shown = {name: value for name, value in document.items() if name not in SECRET_FIELDS}
    if "secret" in document:
        shown["hasSecret"] = True
    if document.get("secretHeaders"):
        shown["secretHeaderNames"] = list(document["secretHeaders"])
    return shown


def resealed(text: str, secrets: Secrets) -> str:
    """A stored delivery with its secrets under the first key."""
    document = decoded(text)
    for name in SECRET_FIELDS & document.keys():
        document[name] = _sealed(document[name], secrets.reseal)
    return delivery_text(document)


def _sealed(value: Any, seal: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {name: seal(text) for name, text in value.items()}
    return seal(value)
