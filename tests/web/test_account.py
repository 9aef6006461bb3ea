"""`manage.py account`: how the first user comes in, and the others."""

from __future__ import annotations

import io

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from jobs.audit import Action, Via
from jobs.dashboard.models import TenantMember
from jobs.services import Services


def account(*arguments: str) -> str:
    output = io.StringIO()
    call_command("account", *arguments, stdout=output)
    return output.getvalue()


def give(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_a_new_user_gets_a_password_that_is_printed_once(pages: Services) -> None:
    printed = account("olga", "--superuser")

    password = printed.partition("Password: ")[2].strip()
    user = User.objects.get(username="olga")
    assert user.check_password(password)
    assert user.is_superuser


def test_an_existing_user_without_an_option_is_not_changed(pages: Services) -> None:
    account("olga")
    before = User.objects.get(username="olga").password

    printed = account("olga")

    assert printed.startswith("Nothing to change: the user olga exists.")
    assert "Password" not in printed
    assert User.objects.get(username="olga").password == before


def test_memberships_are_given_and_changed(pages: Services) -> None:
    account("olga", "--member", "a:viewer", "--member", "with:colon:operator")
    account("olga", "--member", "a:admin")

    members = TenantMember.objects.filter(user__username="olga")
    assert {each.tenant: each.role for each in members} == {"a": "admin", "with:colon": "operator"}


def test_a_password_is_read_from_standard_input(
    pages: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, "correct horse battery\n")

    printed = account("olga", "--password-stdin")

    assert User.objects.get(username="olga").check_password("correct horse battery")
    assert "correct" not in printed


def test_a_weak_password_is_refused_and_makes_nobody(
    pages: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, "password\n")

    with pytest.raises(CommandError, match="too common"):
        account("olga", "--password-stdin")

    assert not User.objects.exists()


@pytest.mark.parametrize("member", ["a", ":viewer", "a:owner", ""])
def test_a_membership_that_cannot_be_read_is_named(pages: Services, member: str) -> None:
    with pytest.raises(CommandError, match="TENANT:ROLE"):
        account("olga", f"--member={member}")


def test_a_name_that_no_user_can_have_is_refused(pages: Services) -> None:
    with pytest.raises(CommandError, match="valid username"):
        account("two words")


def test_what_the_command_changes_is_in_the_log_without_the_password(
    pages: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    account("olga", "--member", "a:viewer")
    account("olga", "--member", "a:viewer")
    account("olga", "--member", "a:admin", "--superuser")
    give(monkeypatch, "correct horse battery\n")
    account("olga", "--password-stdin")

    entries = pages.repository.audit_log.page(None, limit=10)[0]
    assert {(entry.author.name, entry.author.via) for entry in entries} == {
        ("manage.py account", Via.COMMAND)
    }
    password, member, more, let_in, made = entries
    assert (made.action, made.targets) == (Action.USER_ADD, ("olga",))
    assert (let_in.action, let_in.tenant_id) == (Action.MEMBER_ADD, "a")
    assert more.after == {"is_superuser": True, "is_staff": True}
    assert (member.before, member.after) == ({"role": "viewer"}, {"role": "admin"})
    assert password.after == {"password": "another"}
