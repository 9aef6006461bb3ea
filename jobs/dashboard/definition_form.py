"""The form by which a definition is made or changed: text for each field, a sentence beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.http.request import QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from jobs.dashboard.definitions import address_of, definition_asked_for, version_in
from jobs.dashboard.page import PageRequest, access, page, require_tenant, sentence, use_cases
from jobs.dashboard.pretty import pretty
from jobs.dashboard.rights import Right
from jobs.definitions import Definition
from jobs.errors import DefinitionExists, InvalidJob, UnreadableDefinition, VersionMismatch
from jobs.exposure import exposed_delivery, exposed_text
from jobs.json_text import NotJson, loads

_JSON: Final = "json"
_NUMBER: Final = "number"
_TAGS: Final = "tags"
_LONG: Final = "long"
_TEXT: Final = "text"


@dataclass(frozen=True, slots=True)
class _Input:
    """How a field of a definition is asked for."""

    name: str
    label: str
    kind: str = _TEXT
    help: str = ""


_INPUTS: Final = (
    _Input("description", "Description", _LONG),
    _Input(
        "delivery",
        "Delivery (JSON)",
        _JSON,
        "For the job types http and kafka. Secrets are never shown: those that you leave out stay"
        ' as they are, "secret" and "secretHeaders" set new ones, null removes one.',
    ),
    _Input("payload", "Payload (JSON)", _JSON, "What each job gets unless it says its own."),
    _Input("priority", "Priority", _NUMBER, "Higher goes first, within a job type."),
    _Input("maxAttempts", "Attempts at most", _NUMBER),
    _Input("timeoutSeconds", "Time-out of an attempt, in seconds", _NUMBER),
    _Input("retry", "Retry (JSON)", _JSON, 'Such as {"strategy": "fixed", "base": 30}.'),
    _Input("tags", "Tags", _TAGS, "Separated by commas."),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """One field of the form, as it is drawn."""

    name: str
    label: str
    kind: str
    help: str
    value: str
    error: str

    @property
    def described_by(self) -> str:
        """The ids of what is said about it."""
        said = (("help", self.help), ("error", self.error))
        return " ".join(f"{self.name}-{what}" for what, text in said if text)


@require_http_methods(["GET", "HEAD", "POST"])
def definition_new(request: PageRequest) -> HttpResponse:
    """/admin/definitions/new/"""
    tenants = access(request).tenants_with(Right.ADMINISTER)
    texts: Mapping[str, str] = request.POST.dict() if request.method == "POST" else {}
    if tenants is not None and len(tenants) == 1:
        texts = {"tenantId": next(iter(tenants)), **texts}
    if request.method != "POST":
        if not access(request).has_somewhere(Right.ADMINISTER):
            raise PermissionDenied("Only admins of a tenant make definitions.")
        return _form(request, "New definition", texts)
    require_tenant(request, texts.get("tenantId", ""), Right.ADMINISTER)
    try:
        document = _document(request.POST, ("name", "tenantId", "jobType"))
        made = use_cases().definitions.create(document, by=access(request).author)
    except InvalidJob as exc:
        return _form(request, "New definition", texts, exc.field, sentence(exc), status=422)
    except DefinitionExists:
        problem = "The tenant has a definition of this name already."
        return _form(request, "New definition", texts, "name", problem, status=422)
    messages.success(request, f"The definition {made.name} is stored.")
    return redirect(address_of(made.tenant_id, made.name))


@require_http_methods(["GET", "HEAD", "POST"])
def definition_edit(request: PageRequest) -> HttpResponse:
    """/admin/definitions/edit/?tenant=…&name=…"""
    try:
        old = definition_asked_for(request, Right.ADMINISTER)
    except UnreadableDefinition:
        # Its own page says what is wrong.
        return redirect(address_of(request.GET["tenant"], request.GET["name"]))
    title = f"Edit {old.name}"
    if request.method != "POST":
        texts = _texts(old)
        return _form(request, title, texts, version=old.version, old=old)
    texts, version = request.POST.dict(), version_in(request)
    try:
        document = _document(request.POST, ()) | {"jobType": old.job_type}
        stored, _ = use_cases().definitions.put(
            old.tenant_id, old.name, document, version=version, by=access(request).author
        )
    except InvalidJob as exc:
        return _form(
            request, title, texts, exc.field, sentence(exc), version=version, old=old, status=422
        )
    except VersionMismatch as exc:
        return _form(request, title, texts, "", sentence(exc), version=version, old=old, status=409)
    messages.success(request, f"Version {stored.version} of {stored.name} is stored.")
    return redirect(address_of(stored.tenant_id, stored.name))


def _form(
    request: PageRequest,
    title: str,
    texts: Mapping[str, str],
    field: str = "",
    problem: str = "",
    *,
    version: int | None = None,
    old: Definition | None = None,
    status: int = 200,
) -> HttpResponse:
    # `delivery.url` stands in the field `delivery`.
    at = field.partition(".")[0]
    known = {each.name for each in _INPUTS} | {"name", "tenantId", "jobType"}
    tenants = access(request).tenants_with(Right.ADMINISTER)
    context = {
        "fields": [
            Shown(
                each.name,
                each.label,
                each.kind,
                each.help,
                texts.get(each.name, ""),
                problem if each.name == at else "",
            )
            for each in _INPUTS
        ],
        "texts": texts,
        "error": {"at": at, "text": problem},
        "problem": problem if at not in known else "",
        "version": version,
        "old": old,
        "is_conflict": status == 409,
        "tenants": None if tenants is None else sorted(tenants),
        "job_types": sorted(use_cases().job_types),
    }
    return page(request, "dashboard/definition_form.html", title, context, status=status)


def _texts(definition: Definition) -> dict[str, str]:
    """What the form says of a definition when it is opened."""
    numbers = {
        "priority": definition.priority,
        "maxAttempts": definition.max_attempts,
        "timeoutSeconds": definition.timeout_seconds,
    }
    texts = {
        "description": definition.description,
        "delivery": definition.delivery and pretty(exposed_delivery(definition.delivery)),
        "payload": definition.payload and pretty(exposed_text(definition.payload)),
        "retry": definition.retry and pretty(definition.retry),
        "tags": ", ".join(definition.tags),
    } | {name: str(value) for name, value in numbers.items() if value is not None}
    return {name: text for name, text in texts.items() if text}


def _document(form: QueryDict, identity: tuple[str, ...]) -> dict[str, Any]:
    """The document that a client of the API would send for what the form says.

    Raises:
        InvalidJob: a text is not what its field takes.
    """
    document: dict[str, Any] = {name: form.get(name, "").strip() for name in identity}
    for each in _INPUTS:
        text = form.get(each.name, "").strip()
        if not text:
            continue
        if each.kind == _TAGS:
            document[each.name] = [tag.strip() for tag in text.split(",") if tag.strip()]
        elif each.kind in (_JSON, _NUMBER):
            try:
                document[each.name] = loads(text)
            except NotJson as exc:
                noun = "a number" if each.kind == _NUMBER else f"JSON: {exc}"
                raise InvalidJob(each.name, f"is not {noun}") from exc
        else:
            # Browsers end lines as mail does.
            document[each.name] = text.replace("\r\n", "\n")
    return document
