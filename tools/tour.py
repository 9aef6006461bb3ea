"""Every page of the admin, with an address to look at."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from django.urls import reverse

from tools.scene import Scene


def tour(scene: Scene) -> Mapping[str, str]:
    """The addresses of all pages on a scene, by the names that their pictures have."""
    definition = urlencode({"tenant": scene.tenant, "name": scene.definition})
    return {
        "login": reverse("admin:login"),
        "overview": reverse("admin:overview"),
        "overview-week": reverse("admin:overview") + "?range=7d",
        "jobs": reverse("admin:jobs"),
        "job-dead": reverse("admin:job", args=[scene.dead]),
        "job-completed": reverse("admin:job", args=[scene.completed]),
        "dead-letters": reverse("admin:dead_letters"),
        "operations": reverse("admin:operations"),
        "templates": reverse("admin:templates"),
        "template": reverse("admin:template", args=[scene.template]),
        "template-new": reverse("admin:template_new"),
        "definitions": reverse("admin:definitions"),
        "definition": f"{reverse('admin:definition')}?{definition}",
        "nodes": reverse("admin:nodes"),
        "buckets": reverse("admin:buckets"),
        "audit-log": reverse("admin:audit"),
        "members": reverse("admin:dashboard_tenantmember_changelist"),
    }
