"""The shell around the pages: who gets in, and what each answer carries."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs.lifecycle import Status
from jobs.services import Services
from tests.builders import a_job
from tests.web.dashboard import browser_of, elements_of, text_of


def test_whoever_is_not_logged_in_is_sent_to_the_login_page(pages: Services) -> None:
    answer = Client().get("/admin/overview/")

    assert answer.status_code == 302
    assert answer["Location"] == "/admin/login/?next=/admin/overview/"


def test_a_member_logs_in_by_password(pages: Services) -> None:
    browser_of("olga", a="viewer")
    user = User.objects.get(username="olga")
    user.set_password("correct horse")
    user.save()
    browser = Client()

    answer = browser.post(
        "/admin/login/?next=/admin/overview/", {"username": "olga", "password": "correct horse"}
    )

    assert answer.status_code == 302
    assert browser.get("/admin/overview/").status_code == 200


def test_a_user_without_a_tenant_is_told_so(pages: Services) -> None:
    answer = browser_of("nobody").get("/admin/overview/", follow=True)

    assert "are not authorized to access this page" in text_of(answer)


def test_pages_carry_a_policy_without_inline_scripts(pages: Services) -> None:
    for path in ("/admin/login/", "/admin/overview/", "/admin/nothing/"):
        policy = browser_of("root").get(path, follow=True)["Content-Security-Policy"]

        assert "script-src 'self';" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/admin/templates/new/", "/admin/templates/"),
        ("/admin/auth/user/", "/admin/accounts/"),
        ("/admin/dashboard/tenantmember/add/", "/admin/accounts/"),
    ],
)
def test_the_navigation_tells_where_one_is(pages: Services, path: str, page: str) -> None:
    answer = browser_of("root").get(path)

    current = [each["href"] for each in elements_of(answer, "a") if "aria-current" in each]
    assert current == [page]


def test_whoever_had_to_log_in_on_the_way_to_an_action_is_told_that_nothing_was_done(
    pages: Services,
) -> None:
    job = a_job(tenant_id="a")
    pages.repository.jobs.insert([job])

    answer = browser_of("olga", a="operator").get(f"/admin/jobs/{job.id}/cancel/", follow=True)

    assert answer.redirect_chain == [(f"/admin/jobs/{job.id}/", 302)]
    assert "Nothing was done, as you had to log in first" in text_of(answer)
    assert pages.repository.jobs.get(job.id).status is Status.PENDING


def test_a_method_that_is_not_allowed_is_answered_with_a_page(pages: Services) -> None:
    answer = browser_of("root").delete("/admin/overview/")

    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD")
    assert "DELETE is not allowed at this address" in text_of(answer)


def test_djangos_links_by_content_type_lead_nowhere(pages: Services) -> None:
    assert browser_of("vera", a="viewer").get("/admin/r/1/1/").status_code == 404


@pytest.mark.parametrize("path", ["/admin/templates/new/", "/admin/definitions/new/"])
def test_a_viewer_is_told_that_the_role_allows_nothing_new(pages: Services, path: str) -> None:
    answer = browser_of("vera", a="viewer").get(path)

    assert answer.status_code == 403
    assert "Only" in text_of(answer)


def test_a_form_without_its_token_changes_nothing(pages: Services) -> None:
    browser_of("root")
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(User.objects.get(username="root"))

    answer = browser.post("/admin/logout/")

    assert answer.status_code == 403
    assert "Nothing was changed" in text_of(answer)
