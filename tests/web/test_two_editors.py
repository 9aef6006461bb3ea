"""Two people change one thing: the second is told, loses nothing, and undoes nothing unseen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpResponse

from jobs.audit import Action, Author, Via
from jobs.dashboard.models import TenantMember
from jobs.services import Services
from tests.builders import NOW, a_job
from tests.web.dashboard import browser_of, elements_of, messages_of, text_of

OTTO = Author("otto", Via.ADMIN)
LATER = NOW + timedelta(days=1)


def values_of(page: HttpResponse, mark: str) -> dict[str, Any]:
    """What a browser would send of the fields of one form, the one with this text in its tag."""
    form = page.content.decode().partition(mark)[2].partition("</form>")[0]
    fields = [each for each in elements_of(HttpResponse(form), "input") if "name" in each]
    return {each["name"]: each.get("value") or "" for each in fields}


@pytest.mark.parametrize(
    ("action", "field", "mine", "theirs", "now"),
    [
        ("priority", "priority", "7", "5", "it is 5 now"),
        (
            *("reschedule", "due", "2099-01-02T03:04:05", "2099-06-07T08:09:10"),
            "it is due at 2099-06-07 08:09:10 UTC now",
        ),
    ],
)
def test_the_second_of_two_who_change_a_job_is_told_and_may_insist(
    pages: Services, action: str, field: str, mine: str, theirs: str, now: str
) -> None:
    job = a_job(tenant_id="a")
    pages.repository.jobs.insert([job])
    path = f"/admin/jobs/{job.id}/"
    olga, otto = browser_of("olga", a="operator"), browser_of("otto", a="operator")
    opened = values_of(olga.get(path), f"{path}{action}/")
    otto.post(f"{path}{action}/", {field: theirs})
    after_otto = pages.repository.jobs.get(job.id)

    refused = olga.post(f"{path}{action}/", opened | {field: mine})

    assert refused.status_code == 409
    assert now in text_of(refused)
    assert pages.repository.jobs.get(job.id) == after_otto
    again = values_of(refused, f"{path}{action}/")
    assert again[field] == mine
    assert olga.post(f"{path}{action}/", again).status_code == 302
    entries, _ = pages.repository.audit_log.page(None, limit=9, target=str(job.id))
    assert [entry.author.name for entry in entries] == ["olga", "otto"]


def test_a_form_that_says_nonsense_of_what_it_showed_is_not_ours(pages: Services) -> None:
    job = a_job(tenant_id="a")
    pages.repository.jobs.insert([job])
    olga = browser_of("olga", a="operator")

    for action, field, value in (
        ("priority", "priority", "1"),
        ("reschedule", "due", "2099-01-01T00:00"),
    ):
        answer = olga.post(f"/admin/jobs/{job.id}/{action}/", {field: value, "seen": "x"})
        assert answer.status_code == 404
    assert pages.repository.jobs.get(job.id) == job


def test_a_job_that_is_over_says_that_and_not_that_it_was_changed(pages: Services) -> None:
    job = a_job(tenant_id="a")
    pages.repository.jobs.insert([job])
    path = f"/admin/jobs/{job.id}/"
    olga = browser_of("olga", a="operator")
    opened = values_of(olga.get(path), f"{path}priority/")
    pages.cancel(job.id, by=OTTO)

    answer = olga.post(f"{path}priority/", opened | {"priority": "7"})

    assert messages_of(answer) == [
        f"Job {job.id} is cancelled and cannot be given another priority."
    ]


def test_the_second_of_two_who_change_a_membership_is_told(pages: Services) -> None:
    browser_of("viv", a="viewer")
    member = TenantMember.objects.get()
    path = f"/admin/dashboard/tenantmember/{member.pk}/change/"
    anna, bert = browser_of("anna", a="admin"), browser_of("bert", a="admin")
    opened = values_of(anna.get(path), "tenantmember_form")
    bert.post(path, {**opened, "role": "admin"})

    refused = anna.post(path, {**opened, "role": "operator"})

    assert refused.status_code == 200
    assert "Somebody else has changed" in text_of(refused)
    assert TenantMember.objects.get(pk=member.pk).role == "admin"
    entries, _ = pages.repository.audit_log.page(["a"], limit=9, action=Action.MEMBER_CHANGE)
    assert [entry.author.name for entry in entries] == ["bert"]
    again = {**values_of(refused, "tenantmember_form"), "role": "operator"}
    assert anna.post(path, again).status_code == 302
