"""The pages: where each is below /admin/, and in which order they stand in the head of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from django.http.response import HttpResponseBase
from django.urls import register_converter

from jobs.dashboard import (
    audit,
    buckets,
    dead_letters,
    definition_form,
    definitions,
    job,
    job_actions,
    jobs,
    nodes,
    operations,
    overview,
    template_forms,
    templates,
)
from jobs.dashboard.ids import ObjectIdConverter

register_converter(ObjectIdConverter, "oid")


class Page(NamedTuple):
    """One page or action."""

    route: str
    view: Callable[..., HttpResponseBase]
    name: str
    """Reversed as `admin:<name>`."""
    title: str = ""
    """In the navigation; "": it does not stand there."""


PAGES: Final[tuple[Page, ...]] = (
    Page("overview/", overview.overview, "overview", "Overview"),
    Page("jobs/", jobs.jobs, "jobs", "Jobs"),
    Page("jobs/<oid:id>/", job.job, "job"),
    Page("jobs/<oid:id>/<str:action>/", job_actions.job_action, "job_action"),
    Page("dead-letters/", dead_letters.dead_letters, "dead_letters", "Dead letters"),
    Page("dead-letters/<str:kind>/", dead_letters.dead_letters_act, "dead_letters_act"),
    Page("operations/", operations.operations, "operations"),
    Page("operations/<oid:id>/", operations.operation, "operation"),
    Page("operations/<oid:id>/cancel/", operations.operation_cancel, "operation_cancel"),
    Page("templates/", templates.templates, "templates", "Templates"),
    Page("templates/new/", template_forms.template_new, "template_new"),
    Page("templates/preview/", template_forms.template_preview, "template_preview"),
    Page("templates/<oid:id>/", templates.template, "template"),
    Page("templates/<oid:id>/edit/", template_forms.template_edit, "template_edit"),
    Page("templates/<oid:id>/backfill/", template_forms.template_backfill, "template_backfill"),
    Page("templates/<oid:id>/<str:action>/", templates.template_action, "template_action"),
    Page("definitions/", definitions.definitions, "definitions", "Definitions"),
    Page("definitions/one/", definitions.definition, "definition"),
    Page("definitions/new/", definition_form.definition_new, "definition_new"),
    Page("definitions/edit/", definition_form.definition_edit, "definition_edit"),
    Page("definitions/delete/", definitions.definition_delete, "definition_delete"),
    Page("nodes/", nodes.nodes, "nodes", "Nodes"),
    Page("buckets/", buckets.buckets, "buckets", "Buckets"),
    Page("audit/", audit.audit, "audit", "Audit log"),
)
