"""Members in Django's admin: who may let whom in."""

from __future__ import annotations

from django.contrib.auth.models import User

from jobs.audit import Action
from jobs.dashboard.models import TenantMember
from jobs.services import Services
from tests.web.dashboard import browser_of, text_of

ADD = "/admin/dashboard/tenantmember/add/"
LIST = "/admin/dashboard/tenantmember/"


def test_a_superuser_lets_somebody_in_and_the_log_says_so(pages: Services) -> None:
    User.objects.create(username="olga")

    answer = browser_of("root").post(ADD, {"username": "olga", "tenant": "a", "role": "operator"})

    assert answer.status_code == 302
    assert TenantMember.objects.get(user__username="olga").role == "operator"
    [entry] = pages.repository.audit_log.page(None, limit=10)[0]
    assert (entry.action, entry.author.name, entry.tenant_id) == (Action.MEMBER_ADD, "root", "a")
    assert entry.after == {"user": "olga", "tenant": "a", "role": "operator"}


def test_an_admin_of_a_tenant_manages_its_members_and_no_others(pages: Services) -> None:
    browser_of("other", b="viewer")
    browser_of("member", a="viewer")
    browser = browser_of("anna", a="admin")

    listed = text_of(browser.get(LIST))
    refused = browser.post(ADD, {"username": "other", "tenant": "b", "role": "admin"})
    foreign = TenantMember.objects.get(tenant="b")

    assert "member a" in listed
    assert "other" not in listed
    assert "You are no admin of this tenant." in text_of(refused)
    assert browser.get(f"{LIST}{foreign.pk}/change/").status_code == 302
    assert TenantMember.objects.get(pk=foreign.pk).role == "viewer"


def test_a_changed_role_and_a_removal_are_in_the_log(pages: Services) -> None:
    browser_of("olga", a="viewer")
    member = TenantMember.objects.get()
    browser = browser_of("root")

    changed = {"username": "olga", "tenant": "a", "role": "admin"}
    browser.post(f"{LIST}{member.pk}/change/", changed)
    browser.post(f"{LIST}{member.pk}/delete/", {"post": "yes"})

    removed, change = pages.repository.audit_log.page(None, limit=10)[0]
    assert (change.before["role"], change.after["role"]) == ("viewer", "admin")
    assert (removed.action, removed.before["role"]) == (Action.MEMBER_REMOVE, "admin")
    assert not TenantMember.objects.exists()


def test_operators_and_viewers_see_no_members(pages: Services) -> None:
    for role in ("operator", "viewer"):
        assert browser_of(role, a=role).get(LIST).status_code == 403


def test_an_unknown_user_or_a_second_membership_is_told_beside_the_field(pages: Services) -> None:
    browser_of("olga", a="viewer")
    browser = browser_of("root")

    unknown = browser.post(ADD, {"username": "nobody", "tenant": "a", "role": "viewer"})
    twice = browser.post(ADD, {"username": "olga", "tenant": "a", "role": "admin"})

    assert "No user has this name." in text_of(unknown)
    assert "The user is a member of this tenant already." in text_of(twice)


def test_a_membership_stays_with_its_tenant_and_user(pages: Services) -> None:
    browser_of("olga", a="viewer")
    browser_of("otto")
    member = TenantMember.objects.get()

    changed = {"username": "otto", "tenant": "b", "role": "operator"}
    browser_of("anna", a="admin", b="admin").post(f"{LIST}{member.pk}/change/", changed)

    member.refresh_from_db()
    assert (member.user.username, member.tenant, member.role) == ("olga", "a", "operator")


def test_a_membership_edited_by_hand_lets_nobody_in_and_breaks_no_page(pages: Services) -> None:
    browser = browser_of("olga", a="viewer", b="admin", c="admin")
    TenantMember.objects.filter(tenant="b").update(role="owner")
    TenantMember.objects.filter(tenant="c").update(role="")

    assert browser.get("/admin/overview/").status_code == 200
    assert browser.get(LIST).status_code == 403


def test_only_the_filter_of_the_page_is_taken(pages: Services) -> None:
    browser = browser_of("anna", a="admin")

    assert browser.get(f"{LIST}?role__exact=admin").status_code == 200
    for lookup in ("tenant__regex=(", "user__password__startswith=p"):
        assert browser.get(f"{LIST}?{lookup}").status_code == 400
