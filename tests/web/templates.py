"""What the tests of the templates' pages share."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpResponse
from django.test import Client

from jobs.lifecycle import Job
from jobs.services import Services
from tests.builders import a_template
from tests.web.dashboard import elements_of

LIST: Final = "/admin/templates/"
NEW: Final = "/admin/templates/new/"
FORM: Final = {"idempotencyKey": "nightly", "tenantId": "a", "jobType": "noop", "cron": "0 2 * * *"}
ACTIONS: Final = ("pause", "resume", "run", "cancel", "redrive", "backfill", "edit")


def path_of(template: Job, action: str = "") -> str:
    """Where a template's page is, or one of its actions."""
    return f"{LIST}{template.id}/{action and action + '/'}"


def stored(services: Services, **fields: Any) -> Job:
    """A template of tenant a, due each night at two unless told otherwise."""
    template = a_template(**({"tenant_id": "a", "cron": "0 2 * * *"} | fields))
    services.repository.jobs.insert([template])
    return template


def value_of(answer: HttpResponse, name: str) -> str:
    """What a field of a form holds."""
    [value] = [each["value"] for each in elements_of(answer, "input") if each.get("name") == name]
    return str(value)


def edit_form(browser: Client, template: Job) -> dict[str, str]:
    """What the form of a template sends when nothing is typed into it."""
    answer = browser.get(path_of(template, "edit"))
    assert answer.status_code == 200
    return {
        "version": value_of(answer, "version"),
        "cron": value_of(answer, "cron"),
        "priority": value_of(answer, "priority"),
        "tags": value_of(answer, "tags"),
    }
