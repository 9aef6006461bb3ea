"""Give somebody access to the admin."""

from __future__ import annotations

import secrets
import sys
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from jobs.audit import Action, Author, Via
from jobs.dashboard.account_log import record, shown_member, shown_user
from jobs.dashboard.accounts import ANOTHER_PASSWORD
from jobs.dashboard.models import Role, TenantMember
from jobs.errors import StoreUnavailable

_PASSWORD_BYTES: Final = 12
_AUTHOR: Final = Author("manage.py account", Via.COMMAND)
_CHANGES: Final = ("member", "superuser", "password_stdin")


def _membership(text: str) -> tuple[str, str]:
    tenant, separator, role = text.rpartition(":")
    if not separator or not tenant or role not in Role.values:
        raise ArgumentTypeError(
            f"{text!r} is not of the form TENANT:ROLE with one of the roles"
            f" {', '.join(Role.values)}"
        )
    return tenant, role


def _let_in(user: Any, tenant: str, role: str) -> None:
    member = TenantMember.objects.filter(user=user, tenant=tenant).first()
    before = None if member is None else shown_member(member)
    member = member or TenantMember(user=user, tenant=tenant)
    member.role = role
    member.save()
    after = shown_member(member)
    if before != after:
        action = Action.MEMBER_ADD if before is None else Action.MEMBER_CHANGE
        name = user.get_username()
        record(_AUTHOR, action, name, tenant=tenant, before=before, after=after)


class Command(BaseCommand):
    help = (
        "Make a user, or change one that exists: its memberships of tenants, and with"
        " --password-stdin its password. A new user without that gets a random password, which is"
        " printed once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="of the user")
        parser.add_argument(
            "--member",
            action="append",
            default=[],
            type=_membership,
            metavar="TENANT:ROLE",
            help="let in on a tenant as viewer, operator or admin; may be repeated",
        )
        parser.add_argument(
            "--superuser", action="store_true", help="may do everything in all tenants"
        )
        parser.add_argument(
            "--password-stdin", action="store_true", help="read the password from standard input"
        )

    def handle(self, **options: Any) -> None:
        try:
            self._apply(options)
        except (DatabaseError, StoreUnavailable) as exc:
            raise CommandError(f"MongoDB does not answer, or `migrate` was not run: {exc}") from exc

    def _apply(self, options: dict[str, Any]) -> None:
        users: Any = get_user_model()
        named = {users.USERNAME_FIELD: options["name"]}
        user = users._default_manager.filter(**named).first()
        is_new = user is None
        user = user or users(**named)
        if not is_new and not any(options[each] for each in _CHANGES):
            self.stdout.write(
                f"Nothing to change: the user {user.get_username()} exists. --password-stdin gives "
                "it another password, --member and --superuser give it rights."
            )
            return
        password = self._password(user, options) if is_new or options["password_stdin"] else None
        if options["superuser"]:
            user.is_superuser = user.is_staff = True
        if password is not None:
            user.set_password(password)
        try:
            user.full_clean()
        except ValidationError as exc:
            raise CommandError(" ".join(exc.messages)) from exc
        before = None if is_new else shown_user(users._default_manager.get(pk=user.pk))
        user.save()
        after = shown_user(user) | (ANOTHER_PASSWORD if password is not None and not is_new else {})
        if before != after:
            action = Action.USER_ADD if is_new else Action.USER_CHANGE
            record(_AUTHOR, action, user.get_username(), before=before, after=after)
        for tenant, role in options["member"]:
            _let_in(user, tenant, role)
        self.stdout.write(f"{'Made' if is_new else 'Changed'} the user {user.get_username()}.")
        if password is not None and not options["password_stdin"]:
            self.stdout.write(f"Password: {password}")

    def _password(self, user: AbstractBaseUser, options: dict[str, Any]) -> str:
        if not options["password_stdin"]:
            return secrets.token_urlsafe(_PASSWORD_BYTES)
        password = sys.stdin.readline().rstrip("\n")
        try:
            validate_password(password, user)
        except ValidationError as exc:
            raise CommandError(" ".join(exc.messages)) from exc
        return password
