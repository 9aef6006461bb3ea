"""Definitions: what is called, by what it is used, and the list of them."""

from __future__ import annotations

from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from jobs.dashboard.keyset import older_link, place_in
from jobs.dashboard.page import (
    PageRequest,
    access,
    act,
    only_posted,
    page,
    require_tenant,
    sentence,
    use_cases,
)
from jobs.dashboard.pretty import readable
from jobs.dashboard.rights import Right
from jobs.definitions import Definition
from jobs.errors import UnreadableDefinition
from jobs.exposure import exposed_delivery, exposed_text

_PER_PAGE: Final = 50
_USERS_SHOWN: Final = 20


@require_safe
def definitions(request: PageRequest) -> HttpResponse:
    """/admin/definitions/"""
    tenant = request.GET.get("tenant", "").strip()
    tenants = access(request).tenants
    if tenant:
        tenants = frozenset({tenant} if access(request).sees(tenant) else ())
    found, rest = use_cases().repository.definitions.listed(
        tenants, limit=_PER_PAGE, before=place_in(request)
    )
    context = {
        "definitions": found,
        "tenant": tenant,
        "older": older_link(request, rest),
        "may_create": access(request).has_somewhere(Right.ADMINISTER),
    }
    return page(request, "dashboard/definitions.html", "Definitions", context)


@require_safe
def definition(request: PageRequest) -> HttpResponse:
    """/admin/definitions/one/?tenant=…&name=…"""
    try:
        found = definition_asked_for(request)
    except UnreadableDefinition as exc:
        # As after an edit by hand.
        return page(
            request, "dashboard/definition_broken.html", "Definition", {"problem": sentence(exc)}
        )
    uses = use_cases().repository.uses
    context = {
        "definition": found,
        "delivery": None if found.delivery is None else readable(exposed_delivery(found.delivery)),
        "payload": None if found.payload is None else readable(exposed_text(found.payload)),
        "retry": None if found.retry is None else readable(found.retry),
        "templates": uses.templates(found.tenant_id, found.name, limit=_USERS_SHOWN),
        "jobs": uses.jobs(found.tenant_id, found.name, limit=_USERS_SHOWN),
        "may_change": access(request).may(found.tenant_id, Right.ADMINISTER),
    }
    return page(request, "dashboard/definition.html", f"Definition {found.name}", context)


@only_posted
def definition_delete(request: HttpRequest) -> HttpResponse:
    """/admin/definitions/delete/"""
    tenant, name = request.POST.get("tenant", ""), request.POST.get("name", "")
    require_tenant(request, tenant, Right.ADMINISTER)
    version = version_in(request)

    def delete() -> str:
        use_cases().definitions.delete(tenant, name, version=version, by=access(request).author)
        return f"The definition {name} is deleted. Jobs that were made from it go on."

    deleted = act(request, delete)
    return redirect("admin:definitions" if deleted else address_of(tenant, name))


def definition_asked_for(request: HttpRequest, right: Right = Right.VIEW) -> Definition:
    """The definition that an address names.

    Raises:
        DefinitionNotFound: there is none.
        UnreadableDefinition: its document breaks the rules.
        Http404: its tenant is none of the user's.
        PermissionDenied: the right is missing.
    """
    tenant, name = request.GET.get("tenant", ""), request.GET.get("name", "")
    require_tenant(request, tenant, right)
    return use_cases().definitions.get(tenant, name)


def version_in(request: HttpRequest) -> int:
    """The version that somebody saw when the form was opened.

    Raises:
        Http404: the form was not ours.
    """
    text = request.POST.get("version", "")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Http404
    return int(text)


def address_of(tenant: str, name: str) -> str:
    """Where a definition's page is."""
    return f"{reverse('admin:definition')}?{urlencode({'tenant': tenant, 'name': name})}"
