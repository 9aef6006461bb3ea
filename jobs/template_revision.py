"""What may be edited of a template, and the template that an edit makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final

from jobs.definitions import overrides_text, own_from, refreshed
from jobs.delivery.config import decoded, delivery_text, merged
from jobs.delivery.fields import SECRET_FIELDS
from jobs.delivery.kept import kept, without_removals
from jobs.errors import InvalidJob
from jobs.exposure import exposed_delivery, exposed_text
from jobs.fields import FIELDS
from jobs.json_text import dumps, kind_of
from jobs.lifecycle import Job
from jobs.submission import Catalog, job_from
from jobs.wording import unknown_name

EDITABLE: Final = (
    *("cron", "timezone", "catchUp", "overlap", "payload", "priority", "maxAttempts", "tags"),
    *("retry", "timeoutSeconds", "delivery"),
)
"""Fields of a submission. The others say what the template is, and stay."""
REVISED: Final = (
    *(FIELDS[name].attribute for name in EDITABLE),
    *("overrides", "definition_version"),
)
"""The attributes that an edit may change."""
_CRON_ONLY: Final = ("cron", "timezone", "catch_up", "overlap")


def version_of(template: Job) -> str:
    """Tells whether somebody edited a template. Firing it changes nothing of this.

    Not `updatedAt`: whoever edits a template that fires every minute would never be done in time.
    """
    values = [getattr(template, name) for name in REVISED]
    return blake2b(dumps(values).encode(errors="surrogatepass"), digest_size=12).hexdigest()


def editable_document(template: Job) -> dict[str, Any]:
    """What an editor starts from: what the template says itself, without secrets.

    Raises:
        InvalidJob: somebody edited its overrides by hand so that they cannot be used.
    """
    own: Mapping[str, Any] | None = None
    if template.definition is not None:
        own = own_from(template.overrides or "{}")
    document: dict[str, Any] = {}
    for name in EDITABLE:
        attribute = FIELDS[name].attribute
        is_own = own is None or attribute in _CRON_ONLY
        value = getattr(template, attribute) if is_own else (own or {}).get(attribute)
        if value is None or value == ():
            continue
        if name == "payload":
            value = exposed_text(value)
        elif name == "delivery":
            value = exposed_delivery(value)
        elif isinstance(value, StrEnum):
            value = str(value)
        document[name] = list(value) if isinstance(value, tuple) else value
    return document


def revised(template: Job, document: object, *, now: datetime, catalog: Catalog) -> Job:
    """The template that an edited document makes of a stored one.

    What the document leaves out is as in a new submission, but for secrets: they stay as they are,
    and null removes them.

    Args:
        template: as it is stored.
        document: decoded JSON; `EDITABLE` says which fields it may have.
        now: aware UTC; another expression or zone fires after it.
        catalog: what it may refer to, among it the template's definition.

    Raises:
        InvalidJob: the document breaks a rule. The text names the field.
    """
    if not isinstance(document, dict):
        raise InvalidJob("", f"a template must be an object, not {kind_of(document)}")
    for name in document:
        if name not in EDITABLE:
            raise InvalidJob("", unknown_name(name, EDITABLE, "{} cannot be changed"))
    if "cron" not in document:
        raise InvalidJob("cron", "is required")
    given = document.get("delivery")
    if isinstance(given, dict):
        document = document | {"delivery": without_removals(given)}
    submitted = job_from(document | identity(template), now=now, catalog=catalog)
    submitted = _with_secrets(template, submitted, given, catalog)
    new = replace(template, **{name: getattr(submitted, name) for name in REVISED})
    if (new.cron, new.timezone) != (template.cron, template.timezone):
        new = replace(new, scheduled_at=submitted.scheduled_at)
    return new


def identity(template: Job) -> dict[str, Any]:
    """The fields of a submission that an edit leaves as they are."""
    if template.definition is not None:
        made_from = {"definition": template.definition}
    else:
        made_from = {"jobType": template.job_type}
    return {
        "idempotencyKey": template.idempotency_key,
        "tenantId": template.tenant_id,
        **made_from,
    }


def _with_secrets(old: Job, new: Job, given: object, catalog: Catalog) -> Job:
    """The new template with the secrets that the old one has of its own and `given` leaves out."""
    if old.delivery is None or new.delivery is None:
        return new
    own = own_from(new.overrides or "{}")
    if new.definition is None:
        before, after = old.delivery, new.delivery
    else:
        before = own_from(old.overrides or "{}").get("delivery", "{}")
        after = own.get("delivery", "{}")
    secrets = {name: value for name, value in decoded(before).items() if name in SECRET_FIELDS}
    if not secrets:
        return new
    said = given if isinstance(given, dict) else {}
    try:
        # The address may come from the definition.
        staying = kept(said | _address(new.delivery), secrets | _address(old.delivery))
    except InvalidJob as exc:
        raise InvalidJob(
            "delivery.url", "leads elsewhere than where the secrets were given for: give them anew"
        ) from exc
    if not staying:
        return new
    delivery = delivery_text(merged(staying, decoded(after)))
    if new.definition is None:
        return replace(new, delivery=delivery)
    overrides = overrides_text(own | {"delivery": delivery})
    return refreshed(replace(new, overrides=overrides), catalog.definitions)


def _address(delivery: str) -> dict[str, Any]:
    return {"url": decoded(delivery).get("url")}
