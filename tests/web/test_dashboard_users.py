"""Django's page of users: nobody becomes more there than he is, and the log says who did what."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from jobs.audit import Action
from jobs.dashboard.models import TenantMember
from jobs.services import Services
from tests.web.dashboard import browser_of

LIST = "/admin/auth/user/"
FORM = {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "is_active": "on"}


@pytest.fixture
def clerk(pages: Services) -> Client:
    """Staff with Django's permissions for users, and nothing else."""
    browser = browser_of("clerk")
    user = User.objects.get(username="clerk")
    user.is_staff = True
    user.save()
    user.user_permissions.set(Permission.objects.filter(content_type__model="user"))
    return browser


def actions_of(pages: Services) -> list[Action]:
    return [entry.action for entry in pages.repository.audit_log.page(None, limit=20)[0]]


def test_staff_cannot_make_anybody_more_than_a_user(pages: Services, clerk: Client) -> None:
    me = User.objects.get(username="clerk")
    asked = {"username": "clerk", "is_superuser": "on", "is_staff": "on", "email": "c@x.example"}

    assert clerk.post(f"{LIST}{me.pk}/change/", FORM | asked).status_code == 302

    me.refresh_from_db()
    assert (me.is_superuser, me.email) == (False, "c@x.example")


def test_staff_cannot_touch_a_superuser(pages: Services, clerk: Client) -> None:
    browser_of("root")
    root = User.objects.get(username="root")

    changed = clerk.post(f"{LIST}{root.pk}/change/", FORM | {"username": "mine"})
    password = {"password1": "correct horse", "password2": "correct horse"}
    passed = clerk.post(f"{LIST}{root.pk}/password/", password)
    deleted = clerk.post(f"{LIST}{root.pk}/delete/", {"post": "yes"})

    assert [each.status_code for each in (changed, passed, deleted)] == [403, 403, 403]
    assert User.objects.get(pk=root.pk).username == "root"


def test_a_superuser_changes_rights_and_the_log_says_so(pages: Services) -> None:
    browser_of("olga")
    olga = User.objects.get(username="olga")

    browser_of("root").post(
        f"{LIST}{olga.pk}/change/", FORM | {"username": "olga", "is_superuser": "on"}
    )

    [entry] = pages.repository.audit_log.page(None, limit=10)[0]
    assert (entry.action, entry.author.name, entry.targets) == (
        Action.USER_CHANGE,
        "root",
        ("olga",),
    )
    assert (entry.before, entry.after) == ({"is_superuser": False}, {"is_superuser": True})


def test_a_new_user_and_a_new_password_are_in_the_log_without_the_password(
    pages: Services,
) -> None:
    browser = browser_of("root")
    password = {"password1": "correct horse battery", "password2": "correct horse battery"}
    both = {"usable_password": "true", **password}

    browser.post(f"{LIST}add/", {"username": "nina", **both})
    nina = User.objects.get(username="nina")
    browser.post(f"{LIST}{nina.pk}/password/", both)

    assert nina.check_password("correct horse battery")
    assert actions_of(pages) == [Action.USER_CHANGE, Action.USER_ADD]
    assert "correct" not in repr(list(pages.repository.audit_log._entries.find()))


def test_whoever_is_deleted_leaves_the_tenants_and_their_logs_say_so(pages: Services) -> None:
    browser_of("olga", a="viewer", b="admin")
    olga = User.objects.get(username="olga")

    browser_of("root").post(f"{LIST}{olga.pk}/delete/", {"post": "yes"})

    assert not TenantMember.objects.exists()
    log = pages.repository.audit_log
    assert [each.action for each in log.page(["a"], limit=10)[0]] == [Action.MEMBER_REMOVE]
    assert [each.action for each in log.page(["b"], limit=10)[0]] == [Action.MEMBER_REMOVE]
    assert Action.USER_REMOVE in actions_of(pages)
