"""Rules for Django's pages of users and groups: nobody gives himself more, the log says who did.

Django's own rule is that whoever may change users may make any of them, also himself, a superuser;
here a superuser sees the jobs of all tenants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django.http import HttpRequest

from jobs.audit import Action
from jobs.dashboard.account_log import entry, record, shown_group, shown_member, shown_user
from jobs.dashboard.models import TenantMember
from jobs.dashboard.page import access, use_cases


class _Rules:
    """Goes in front of a page of Django's."""

    filter_horizontal = ()
    """Its two lists beside each other have labels that screen readers may not read out."""
    privileges: ClassVar[tuple[str, ...]]
    """Fields that only superusers change."""
    facts: ClassVar[tuple[str, ...]] = ()
    """Fields that nobody changes."""
    noun: ClassVar[str]
    added: ClassVar[Action]
    changed: ClassVar[Action]

    @staticmethod
    def shown(obj: Any, /) -> dict[str, Any]:
        """What the log says of one; under the noun its name."""
        raise NotImplementedError

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        fields = (*super().get_readonly_fields(request, obj), *self.facts)  # type: ignore[misc]
        return fields if access(request).is_superuser else (*fields, *self.privileges)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """None: each is deleted by itself, with its rules and its entries."""
        return {}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            before = self.shown(type(obj)._default_manager.get(pk=obj.pk))
            request._shown_before = before  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)  # type: ignore[misc]

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        after = self.shown(obj)
        record(access(request).author, self.added, after[self.noun], after=after)
        return super().log_addition(request, obj, message)  # type: ignore[misc]

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Called when groups and permissions are saved too, and after a new password."""
        before: Mapping[str, Any] | None = getattr(request, "_shown_before", None)
        shown = self.shown(obj)
        after = ANOTHER_PASSWORD if before is None else shown
        record(access(request).author, self.changed, shown[self.noun], before=before, after=after)
        return super().log_change(request, obj, message)  # type: ignore[misc]


class UserRules(_Rules):
    """Of users."""

    privileges = ("is_superuser", "is_staff", "groups", "user_permissions")
    facts = ("last_login", "date_joined")
    noun = "user"
    shown = staticmethod(shown_user)
    added, changed = Action.USER_ADD, Action.USER_CHANGE

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Also what a new password needs."""
        allowed = super().has_change_permission(request, obj)  # type: ignore[misc]
        return bool(allowed) and _is_no_better(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        allowed = super().has_delete_permission(request, obj)  # type: ignore[misc]
        return bool(allowed) and _is_no_better(request, obj)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        by, name = access(request).author, obj.get_username()
        entries = [entry(by, Action.USER_REMOVE, name, before=shown_user(obj))]
        entries += [
            entry(by, Action.MEMBER_REMOVE, name, tenant=each.tenant, before=shown_member(each))
            for each in TenantMember.objects.filter(user_id=obj.pk)
        ]
        super().delete_model(request, obj)  # type: ignore[misc]
        use_cases().repository.audit_log.append(entries)


class GroupRules(_Rules):
    """Of groups."""

    privileges = ("permissions",)
    noun = "group"
    shown = staticmethod(shown_group)
    added, changed = Action.GROUP_ADD, Action.GROUP_CHANGE

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        users = sorted(user.get_username() for user in obj.user_set.all())
        before = shown_group(obj) | {"users": users}
        super().delete_model(request, obj)  # type: ignore[misc]
        record(access(request).author, Action.GROUP_REMOVE, obj.name, before=before)


ANOTHER_PASSWORD: Final = {"password": "another"}
_DJANGOS: Final = "django.contrib.auth.admin"
_RULES: Final[Mapping[tuple[str, str], type[_Rules]]] = {
    (_DJANGOS, "UserAdmin"): UserRules,
    (_DJANGOS, "GroupAdmin"): GroupRules,
}


def with_rules(admin_class: type[Any]) -> type[Any]:
    """An admin class; one of users or groups behind its rules."""
    for base in admin_class.__mro__:
        if rules := _RULES.get((base.__module__, base.__qualname__)):
            return type(admin_class.__name__, (rules, admin_class), {})
    return admin_class


def _is_no_better(request: HttpRequest, user: Any) -> bool:
    """Whether a user is none that only superusers may touch."""
    return access(request).is_superuser or not getattr(user, "is_superuser", False)
