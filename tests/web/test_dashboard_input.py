"""Whatever stands in an address, a page answers it in good order."""

from __future__ import annotations

from typing import Final

import pytest

from jobs.dashboard.urls import PAGES
from jobs.lifecycle import Status
from jobs.services import Services
from tests.builders import a_job
from tests.web.dashboard import browser_of

ODD: Final = {
    "NUL": "\x00",
    "markup": "<script>alert(1)</script>",
    "expression": "(((a+)+)+[$\\",
    "surrogate": "\ud800",
    "long": "x" * 3_000,
    "operator": "$where",
    "number": "-99999999999999999999",
    "first year": "0001-01-01T00:00",
    "last year": "9999-12-31T23:59:59.999999+14:00",
}
TOGETHER: Final = (
    ("error", "text", "key", "cron", "author"),
    ("type", "definition", "tag", "group", "target", "timezone", "range", "live"),
    *(("tenant", "name"), ("since",), ("until",), ("template",), ("q",)),
    *(("tab", "status"), ("before",)),
    ("without", "action", "attempt"),
)
"""Parameters, in groups that do not keep each other from being looked at."""
LISTS: Final = [page.route for page in PAGES if "<" not in page.route]


@pytest.mark.parametrize("route", LISTS)
def test_no_parameter_makes_a_page_fail(pages: Services, route: str) -> None:
    pages.repository.jobs.insert([a_job(status=Status.DLQ, last_error="broken")])
    browser = browser_of("root")

    answers = {
        f"{names}={kind}": browser.get(f"/admin/{route}", dict.fromkeys(names, value)).status_code
        for names in TOGETHER
        for kind, value in ODD.items()
        if kind != "surrogate"
    }
    surrogates = {
        f"{name}=surrogate": browser.get(f"/admin/{route}?{name}=%ED%A0%80").status_code
        for names in TOGETHER
        for name in names[:1]
    }

    assert {each: status for each, status in (answers | surrogates).items() if status >= 500} == {}


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_no_method_makes_a_page_fail(pages: Services, method: str) -> None:
    job = a_job(tenant_id="a")
    pages.repository.jobs.insert([job])
    browser = browser_of("root")

    for page in PAGES:
        route = page.route.replace("<oid:id>", str(job.id))
        for name in ("<str:action>", "<str:kind>"):
            route = route.replace(name, "nonesuch")
        assert getattr(browser, method)(f"/admin/{route}").status_code < 500, route


def test_forms_filled_with_odd_values_are_refused_in_good_order(pages: Services) -> None:
    job = a_job(tenant_id="a")
    pages.repository.jobs.insert([job])
    browser = browser_of("root")
    fields = (
        *("due", "priority", "clone_due", "idempotencyKey", "tenantId", "jobType", "cron", "name"),
        *("timezone", "payload", "reason", "until", "version", "delivery", "retry", "tags"),
    )
    routes = ("templates/new/", "definitions/new/", f"jobs/{job.id}/reschedule/")
    routes += (f"jobs/{job.id}/priority/", f"jobs/{job.id}/clone/")

    for value in ODD.values():
        for route in routes:
            filled = dict.fromkeys(fields, value.encode(errors="surrogatepass"))
            answer = browser.post(f"/admin/{route}", filled)
            assert answer.status_code < 500, (route, value)
