"""Django's pages of users and groups: nobody becomes more than he is, the log says who did what."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from jobs.audit import Action
from jobs.dashboard.models import TenantMember
from jobs.services import Services
from tests.web.dashboard import browser_of, text_of

LIST = "/admin/auth/user/"
GROUPS = "/admin/auth/group/"
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


def test_what_groups_allow_and_who_is_in_them_is_in_the_log(pages: Services) -> None:
    browser_of("olga")
    olga = User.objects.get(username="olga")
    browser = browser_of("root")
    view = Permission.objects.get(codename="view_user")
    change = Permission.objects.get(codename="change_user")

    browser.post(f"{GROUPS}add/", {"name": "clerks", "permissions": [view.pk]})
    clerks = Group.objects.get()
    browser.post(f"{GROUPS}{clerks.pk}/change/", {"name": "office", "permissions": [change.pk]})
    asked = FORM | {"username": "olga", "groups": [clerks.pk], "user_permissions": [view.pk]}
    browser.post(f"{LIST}{olga.pk}/change/", asked)
    browser.post(f"{GROUPS}{clerks.pk}/delete/", {"post": "yes"})

    removed, let_in, changed, added = pages.repository.audit_log.page(None, limit=10)[0]
    assert (added.action, added.targets) == (Action.GROUP_ADD, ("clerks",))
    assert added.after == {"group": "clerks", "permissions": ["auth.view_user"]}
    assert (changed.action, changed.author.name) == (Action.GROUP_CHANGE, "root")
    assert changed.before == {"group": "clerks", "permissions": ["auth.view_user"]}
    assert changed.after == {"group": "office", "permissions": ["auth.change_user"]}
    assert (let_in.action, let_in.before) == (
        Action.USER_CHANGE,
        {"groups": [], "permissions": []},
    )
    assert let_in.after == {"groups": ["office"], "permissions": ["auth.view_user"]}
    assert (removed.action, removed.before["users"]) == (Action.GROUP_REMOVE, ["olga"])
    shown = text_of(browser.get("/admin/audit/"))
    for said in ("added a group", "changed a group", "removed a group", "auth.change_user"):
        assert said in shown


def test_staff_cannot_give_a_group_more_rights(pages: Services, clerk: Client) -> None:
    user = User.objects.get(username="clerk")
    user.user_permissions.add(*Permission.objects.filter(content_type__model="group"))
    group = Group.objects.create(name="clerks")
    every = [each.pk for each in Permission.objects.all()]

    answer = clerk.post(f"{GROUPS}{group.pk}/change/", {"name": "office", "permissions": every})

    assert answer.status_code == 302
    group.refresh_from_db()
    assert group.name == "office"
    assert not group.permissions.exists()


def test_whoever_changes_his_own_password_is_in_the_log(pages: Services) -> None:
    browser = browser_of("olga", a="viewer")
    olga = User.objects.get(username="olga")
    olga.set_password("correct horse battery")
    olga.save()
    browser.force_login(olga)
    new = {"new_password1": "staple battery horse", "new_password2": "staple battery horse"}

    wrong = browser.post("/admin/password_change/", {"old_password": "no"} | new)
    answer = browser.post(
        "/admin/password_change/", {"old_password": "correct horse battery"} | new
    )

    assert (wrong.status_code, answer.status_code) == (200, 302)
    [entry] = pages.repository.audit_log.page(None, limit=10)[0]
    assert (entry.action, entry.author.name, entry.targets) == (
        Action.USER_CHANGE,
        "olga",
        ("olga",),
    )
    assert entry.after == {"password": "another"}
