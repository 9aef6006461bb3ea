"""Definitions: what to call, said once; the jobs made from one keep a copy of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from jobs.delivery.config import (
    DELIVERY_TYPES,
    decoded,
    delivery_text,
    merged,
    require_complete,
    resealed,
)
from jobs.delivery.kept import kept
from jobs.delivery.secrets import Secrets
from jobs.errors import InvalidJob, UnreadableDefinition
from jobs.fields import DEFINITION_FIELDS, MAX_TAGS, check_string
from jobs.json_text import NotJson, dumps, kind_of, loads
from jobs.lifecycle import DEFAULT_MAX_ATTEMPTS, Job
from jobs.wording import shown

DEFAULTS: Final = ("payload", "priority", "max_attempts", "retry", "timeout_seconds")
"""What a definition gives where the job does not say it: attributes of both."""
_NOTHING_SAID: Final[dict[str, Any]] = {
    **dict.fromkeys((*DEFAULTS, "delivery")),
    "priority": 0,
    "max_attempts": DEFAULT_MAX_ATTEMPTS,
}
_OWN: Final = (*DEFAULTS, "tags", "delivery")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One version of what to call.

    `payload` and `delivery` are JSON texts as in `Job`; None: not said.
    """

    tenant_id: str
    name: str
    version: int
    job_type: str
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    delivery: str | None = None
    payload: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    tags: tuple[str, ...] = ()
    retry: Mapping[str, Any] | None = None
    timeout_seconds: float | None = None


Definitions = Mapping[tuple[str, str], Definition | UnreadableDefinition]
"""By tenant and name."""


def own_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a submitted job says itself among what its definition could give, by attribute."""
    return {name: values[name] for name in _OWN if name in values}


def combined(definition: Definition, own: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a job made from a definition.

    Args:
        definition: gives what `own` does not have.
        own: from `own_values`. Tags are added to the definition's; its delivery replaces parts.

    Raises:
        InvalidJob: together they break a rule.
    """
    values = {
        name: getattr(definition, name)
        for name in DEFAULTS
        if getattr(definition, name) is not None
    }
    values.update(own)
    tags = tuple(dict.fromkeys((*definition.tags, *own.get("tags", ()))))
    if len(tags) > MAX_TAGS:
        raise InvalidJob("tags", f"must not be more than {MAX_TAGS} with those of the definition")
    if definition.job_type in DELIVERY_TYPES:
        base = decoded(definition.delivery) if definition.delivery is not None else {}
        over = decoded(own["delivery"]) if "delivery" in own else {}
        # The definition's secrets go with it, and so only where it goes.
        kept(over, base)
        delivery = merged(base, over)
        require_complete(definition.job_type, delivery)
        values["delivery"] = delivery_text(delivery)
    return {
        **values,
        "tags": tags,
        "job_type": definition.job_type,
        "definition": definition.name,
        "definition_version": definition.version,
    }


def overrides_text(own: Mapping[str, Any]) -> str:
    """What `own_values` gives, as a template keeps it."""
    return dumps(own)


def refreshed(template: Job, definitions: Definitions) -> Job:
    """A template as its definition now has it: what its next runs are copied from.

    Args:
        template: with or without a definition.
        definitions: among them its own, where that exists.

    Raises:
        InvalidJob: it does not exist, cannot be read, or does not go with what the template says.
    """
    if template.definition is None:
        return template
    own = own_from(template.overrides or "{}")
    definition = named(definitions, template.tenant_id, template.definition)
    return replace(template, **(_NOTHING_SAID | combined(definition, own)))


def named(definitions: Definitions, tenant_id: str, name: str) -> Definition:
    """One of several definitions.

    Raises:
        InvalidJob: it is not among them, or cannot be read.
    """
    definition = definitions.get((tenant_id, name))
    if definition is None:
        raise InvalidJob("definition", f"names none of this tenant: {shown(name)}")
    if isinstance(definition, UnreadableDefinition):
        raise InvalidJob("definition", f"cannot be used: {definition}")
    return definition


def resealed_overrides(text: str, secrets: Secrets) -> str:
    """What a template keeps, with its secrets under the first key. Raises as `resealed` does."""
    own = own_from(text)
    if "delivery" in own:
        own["delivery"] = resealed(own["delivery"], secrets)
    return overrides_text(own)


def check_stored(values: Mapping[str, Any]) -> None:
    """Refuse what a job could not be made from.

    Args:
        values: by attribute, as a definition or a template's overrides keep them.

    Raises:
        InvalidJob: somebody edited them by hand. The text names the field.
    """
    for name, field in DEFINITION_FIELDS.items():
        value = values.get(field.attribute)
        if field.attribute not in _OWN or value is None:
            continue
        try:
            if field.attribute == "delivery":
                decoded(check_string(value))
            elif field.attribute == "payload":
                _check_payload(check_string(value))
            else:
                field.check(list(value) if isinstance(value, tuple) else value)
        except ValueError as exc:
            raise InvalidJob(name, str(exc)) from exc


def _check_payload(text: str) -> None:
    try:
        payload = loads(text)
    except NotJson as exc:
        raise ValueError(f"is not JSON: {exc}") from exc
    if not isinstance(payload, dict):
        raise ValueError(f"must be an object, not {kind_of(payload)}")


def own_from(text: str) -> dict[str, Any]:
    """What a template keeps in its `overrides`, by attribute.

    Raises:
        InvalidJob: somebody edited it by hand so that it cannot be used.
    """
    try:
        own = loads(text)
    except NotJson as exc:
        raise InvalidJob("overrides", f"is not JSON: {exc}") from exc
    if not isinstance(own, dict) or not own.keys() <= set(_OWN):
        raise InvalidJob("overrides", f"must be an object with some of {', '.join(_OWN)}")
    try:
        check_stored(own)
    except InvalidJob as exc:
        raise InvalidJob("overrides", f"cannot be used: {exc}") from exc
    return own
