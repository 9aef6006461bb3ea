"""Every page of the admin, with an address to look at."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from django.urls import reverse

from tools.scene import Scene


def tour(scene: Scene) -> Mapping[str, str]:
    """The addresses of all pages on a scene, by the names that their pictures have."""
    tenant = urlencode({"tenant": scene.tenant})
    definition = urlencode({"tenant": scene.tenant, "name": scene.definition})
    return {
        "login": reverse("admin:login"),
        "overview": reverse("admin:overview"),
        "overview-week": reverse("admin:overview") + "?range=7d",
        "jobs": reverse("admin:jobs"),
        "job-running": reverse("admin:job", args=[scene.running]),
        "job-dead": reverse("admin:job", args=[scene.dead]),
        "job-completed": reverse("admin:job", args=[scene.completed]),
        "dead-letters": reverse("admin:dead_letters"),
        "redrive": f"{reverse('admin:dead_letters_act', args=['redrive'])}?{tenant}",
        "operations": reverse("admin:operations"),
        "operation": reverse("admin:operation", args=[scene.operation]),
        "templates": reverse("admin:templates"),
        "template": reverse("admin:template", args=[scene.template]),
        "template-new": reverse("admin:template_new"),
        "template-edit": reverse("admin:template_edit", args=[scene.template]),
        "backfill": reverse("admin:template_backfill", args=[scene.template]),
        "definitions": reverse("admin:definitions"),
        "definition": f"{reverse('admin:definition')}?{definition}",
        "definition-new": reverse("admin:definition_new"),
        "definition-edit": f"{reverse('admin:definition_edit')}?{definition}",
        "nodes": reverse("admin:nodes"),
        "buckets": reverse("admin:buckets"),
        "audit-log": reverse("admin:audit"),
        "accounts": reverse("admin:accounts"),
        "members": reverse("admin:dashboard_tenantmember_changelist"),
        "member-new": reverse("admin:dashboard_tenantmember_add"),
        "users": reverse("admin:auth_user_changelist"),
        "user-new": reverse("admin:auth_user_add"),
        "groups": reverse("admin:auth_group_changelist"),
        "group-new": reverse("admin:auth_group_add"),
        "password": reverse("admin:password_change"),
    }
