"""Making and editing a template in a form, with a preview; and backfilling one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from bson import ObjectId
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from jobs.dashboard.page import PageRequest, access, act, page, sentence, use_cases
from jobs.dashboard.pretty import pretty
from jobs.dashboard.rights import Right
from jobs.dashboard.templates import find_template, instant_text
from jobs.errors import (
    DuplicateKey,
    InvalidCron,
    InvalidJob,
    KeyCollision,
    VersionMismatch,
    WrongState,
)
from jobs.instants import parse_instant
from jobs.json_text import NotJson, loads
from jobs.lifecycle import CatchUp, Job, Overlap
from jobs.repository.documents import BrokenJob
from jobs.template_revision import editable_document, version_of

_PREVIEWED: Final = 5
_PREVIEWED_FIELDS: Final = ("cron", "timezone")
_NO_PREVIEW: Final[Mapping[str, Any]] = {"preview": None, "preview_problem": ""}


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of the form, as it is shown."""

    name: str
    """In the submitted document."""
    label: str
    help: str = ""
    kind: str = "text"
    """text, select, json, list or number."""
    options: tuple[str, ...] = ()
    value: str = ""
    error: str = ""
    stored: str = ""
    """What somebody else has stored meanwhile."""

    @property
    def is_long(self) -> bool:
        return self.kind == "json"


_IDENTITY: Final = (
    FormField("idempotencyKey", "Key", "Names the template, over all tenants."),
    FormField("tenantId", "Tenant"),
    FormField("jobType", "Job type", "May be left out with a definition."),
    FormField("definition", "Definition", "Its name; gives whatever is left out here."),
)
_EDITABLE: Final = (
    FormField("cron", "Expression", "Minute, hour, day of month, month, day of week."),
    FormField("timezone", "Time zone", "Such as Europe/Berlin; UTC when left out."),
    FormField(
        "catchUp",
        "Missed occurrences",
        "One run for all of them, all of them, or none.",
        "select",
        tuple(map(str, CatchUp)),
    ),
    FormField(
        "overlap",
        "While an earlier run goes on",
        "Spawn another run, or skip the occurrence.",
        "select",
        tuple(map(str, Overlap)),
    ),
    FormField("payload", "Payload", "A JSON object.", "json"),
    FormField("priority", "Priority", "Higher runs first; 0 when left out.", "number"),
    FormField("maxAttempts", "Attempts", "3 when left out.", "number"),
    FormField("tags", "Tags", "Separated by commas.", "list"),
    FormField("retry", "Retry policy", "A JSON object.", "json"),
    FormField(
        "timeoutSeconds", "Seconds for one attempt", "As long as it likes when left out.", "number"
    ),
    FormField(
        "delivery",
        "Delivery",
        "A JSON object, for the job types http and kafka. Secrets that are left out stay as they"
        " are; null removes one.",
        "json",
    ),
)


@require_http_methods(["GET", "HEAD", "POST"])
def template_new(request: PageRequest) -> HttpResponse:
    """/admin/templates/new/"""
    if not access(request).has_somewhere(Right.OPERATE):
        raise PermissionDenied("Only operators and admins of a tenant make templates.")
    fields = _filled((*_IDENTITY, *_EDITABLE), _typed(request))
    if request.method != "POST":
        return _form(request, "New template", fields)
    document, fields = _document_of(fields)
    problem = ""
    if not any(field.error for field in fields) and "preview" not in request.POST:
        try:
            _require_tenant(request, document)
            made = use_cases().templates.create(document, by=access(request).author)
        except (InvalidJob, DuplicateKey, KeyCollision) as exc:
            problem, fields = _blamed(fields, exc)
        else:
            messages.success(request, "Created.")
            return redirect("admin:template", made.id)
    return _form(request, "New template", fields, problem=problem)


def _require_tenant(request: HttpRequest, document: Mapping[str, Any]) -> None:
    tenant_id = document.get("tenantId", "")
    if tenant_id and not access(request).may(tenant_id, Right.OPERATE):
        raise InvalidJob("tenantId", "is none in which you may make templates")


@require_http_methods(["GET", "HEAD", "POST"])
def template_edit(request: PageRequest, id: ObjectId) -> HttpResponse:
    """/admin/templates/<id>/edit/"""
    template = find_template(request, id, Right.OPERATE)
    if isinstance(template, BrokenJob):
        raise Http404
    title = f"Edit template {template.idempotency_key}"
    stored = _stored(template)
    version = request.POST.get("version", version_of(template))
    if request.method != "POST":
        return _form(request, title, _filled(_EDITABLE, stored), template, version)
    document, fields = _document_of(_filled(_EDITABLE, _typed(request)))
    problem, is_stale = "", False
    if not any(field.error for field in fields) and "preview" not in request.POST:
        try:
            use_cases().templates.edit(id, document, version=version, by=access(request).author)
        except InvalidJob as exc:
            problem, fields = _blamed(fields, exc)
        except WrongState as exc:
            problem = sentence(exc)
        except VersionMismatch:
            problem = (
                "Somebody else has edited the template. Nothing was saved, and what you typed is"
                " still here; where something else is stored now, it stands below the field. Save"
                " again to replace it."
            )
            fields = [_compared(field, stored) for field in fields]
            version, is_stale = version_of(template), True
        else:
            messages.success(request, "Saved.")
            return redirect("admin:template", id)
    return _form(request, title, fields, template, version, problem=problem, is_stale=is_stale)


@require_POST
def template_preview(request: PageRequest) -> HttpResponse:
    """/admin/templates/preview/: the part of the form that follows what is typed, however long."""
    typed = {name: request.POST.get(name, "") for name in ("cron", "timezone")}
    return render(request, "dashboard/template_preview.html", _preview(typed))


def _form(
    request: PageRequest,
    title: str,
    fields: list[FormField],
    template: Job | None = None,
    version: str = "",
    *,
    problem: str = "",
    is_stale: bool = False,
) -> HttpResponse:
    typed = {field.name: field.value for field in fields}
    is_wrong = bool(problem) or any(field.error for field in fields)
    # The preview would only say again what stands beside the field.
    is_blamed = any(field.error for field in fields if field.name in _PREVIEWED_FIELDS)
    tenants = access(request).tenants_with(Right.OPERATE)
    context = {
        "fields": fields,
        "template": template,
        "version": version,
        "problem": problem,
        "is_wrong": is_wrong,
        "job_types": sorted(use_cases().job_types),
        "tenants": sorted(tenants or ()),
        **(_NO_PREVIEW if is_blamed else _preview(typed)),
    }
    status = 409 if is_stale else 422 if is_wrong else 200
    return page(request, "dashboard/template_form.html", title, context, status=status)


def _preview(typed: Mapping[str, str]) -> Mapping[str, Any]:
    if not typed["cron"].strip():
        return _NO_PREVIEW
    zone = typed["timezone"].strip() or None
    try:
        made = use_cases().templates.preview(typed["cron"], zone, count=_PREVIEWED)
    except InvalidCron as exc:
        [field] = [each for each in _EDITABLE if each.name == exc.field]
        return {"preview": None, "preview_problem": _told(field, exc)}
    return {"preview": made, "preview_problem": "", "zone": zone or "UTC"}


def _typed(request: HttpRequest) -> dict[str, str]:
    return {field.name: request.POST.get(field.name, "") for field in (*_IDENTITY, *_EDITABLE)}


def _stored(template: Job) -> dict[str, str]:
    """What the form shows of a stored template."""
    texts = {}
    document = editable_document(template)
    for field in _EDITABLE:
        if (value := document.get(field.name)) is None:
            continue
        if field.kind == "json":
            texts[field.name] = pretty(value)
        else:
            texts[field.name] = ", ".join(value) if field.kind == "list" else str(value)
    return texts


def _filled(fields: tuple[FormField, ...], texts: Mapping[str, str]) -> list[FormField]:
    return [replace(field, value=texts.get(field.name, "")) for field in fields]


def _document_of(fields: list[FormField]) -> tuple[dict[str, Any], list[FormField]]:
    """The document that a form stands for, and the form with what cannot be read in it."""
    document: dict[str, Any] = {}
    judged = []
    for field in fields:
        text = field.value.strip()
        if text:
            try:
                document[field.name] = _value(field.kind, text)
            except NotJson as exc:
                field = replace(field, error=f"{field.label} is not usable JSON: {exc}.")
        judged.append(field)
    return document, judged


def _value(kind: str, text: str) -> Any:
    if kind == "list":
        return [item.strip() for item in text.split(",") if item.strip()]
    if kind == "json":
        return loads(text)
    if kind == "number":
        try:
            return loads(text)
        except NotJson:
            # Refused with the field's own sentence.
            return text
    return text


def _blamed(
    fields: list[FormField], error: InvalidJob | DuplicateKey | KeyCollision
) -> tuple[str, list[FormField]]:
    """The problem of the whole form, or the form with the error at its field."""
    blamed = error.field if isinstance(error, InvalidJob) else "idempotencyKey"
    name = blamed.partition(".")[0]
    if name not in {field.name for field in fields}:
        return sentence(error), fields
    return "", [
        replace(field, error=_told(field, error)) if field.name == name else field
        for field in fields
    ]


def _told(field: FormField, error: InvalidJob | DuplicateKey | KeyCollision) -> str:
    """What an error says, of a field by its label."""
    if isinstance(error, DuplicateKey):
        # Keys are unique over all tenants: another tenant's job may have it.
        return f"{field.label} is taken. Choose another one."
    told, text = sentence(error), str(error)
    return field.label + told[len(field.name) :] if text.startswith(f"{field.name} ") else told


def _compared(field: FormField, stored: Mapping[str, str]) -> FormField:
    text = stored.get(field.name, "")
    return field if text == field.value.strip() else replace(field, stored=text or "nothing")


@require_http_methods(["GET", "HEAD", "POST"])
def template_backfill(request: PageRequest, id: ObjectId) -> HttpResponse:
    """/admin/templates/<id>/backfill/: a range is previewed, then confirmed."""
    template = find_template(request, id, Right.OPERATE)
    if isinstance(template, BrokenJob):
        raise Http404
    sent = request.POST if request.method == "POST" else request.GET
    typed = {name: sent.get(name, "").strip() for name in ("from", "to")}
    context: dict[str, Any] = {"template": template, "typed": typed, "plan": None}
    if any(typed.values()):
        try:
            start, end = (_instant(name, text) for name, text in typed.items())
            if request.method == "POST":
                act(request, lambda: _backfill(request, id, start, end), InvalidJob)
                return redirect("admin:template", id)
            context["plan"] = use_cases().templates.plan_backfill(id, start=start, end=end)
        except InvalidJob as exc:
            context["problems"] = {exc.field: sentence(exc)}
        except WrongState as exc:
            context["problem"] = sentence(exc)
    title = f"Backfill template {template.idempotency_key}"
    status = 422 if {"problem", "problems"} & context.keys() else 200
    return page(request, "dashboard/template_backfill.html", title, context, status=status)


def _backfill(request: HttpRequest, id: ObjectId, start: datetime, end: datetime) -> str:
    count = use_cases().templates.backfill(id, start=start, end=end, by=access(request).author)
    return f"{count:,} run{'' if count == 1 else 's'} made, due now."


def _instant(name: str, typed: str) -> datetime:
    try:
        return parse_instant(instant_text(typed))
    except ValueError as exc:
        raise InvalidJob(name, "must be a date and time") from exc
