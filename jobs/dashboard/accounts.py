"""Rules for Django's page of users: nobody makes himself more than he is, and the log says who did.

Django's own rule is that whoever may change users may make any of them, also himself, a superuser;
here a superuser sees the jobs of all tenants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db.models import Model
from django.http import HttpRequest

from jobs.audit import Action, Entry
from jobs.dashboard.models import TenantMember
from jobs.dashboard.page import access, use_cases

_PRIVILEGES: Final = ("is_superuser", "is_staff", "groups", "user_permissions")
_SHOWN: Final = ("is_active", "is_superuser", "is_staff", "email")
_DJANGOS: Final = ("django.contrib.auth.admin", "UserAdmin")


class AccountRules:
    """Goes in front of Django's UserAdmin."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        fields = tuple(super().get_readonly_fields(request, obj))  # type: ignore[misc]
        return fields if access(request).is_superuser else (*fields, *_PRIVILEGES)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Also what a new password needs."""
        allowed = super().has_change_permission(request, obj)  # type: ignore[misc]
        return bool(allowed) and _is_no_better(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        allowed = super().has_delete_permission(request, obj)  # type: ignore[misc]
        return bool(allowed) and _is_no_better(request, obj)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """None: users are deleted one by one, each with its rules and its entries."""
        return {}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            request._user_before = shown_user(  # type: ignore[attr-defined]
                type(obj)._default_manager.get(pk=obj.pk)
            )
        super().save_model(request, obj, form, change)  # type: ignore[misc]

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        record(request, Action.USER_ADD, obj, after=shown_user(obj))
        return super().log_addition(request, obj, message)  # type: ignore[misc]

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Called when the groups are saved too, and after a new password."""
        before: Mapping[str, Any] | None = getattr(request, "_user_before", None)
        after = {"password": "another"} if before is None else shown_user(obj)
        record(request, Action.USER_CHANGE, obj, before=before or {}, after=after)
        return super().log_change(request, obj, message)  # type: ignore[misc]

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        members = list(TenantMember.objects.filter(user_id=obj.pk))
        before = shown_user(obj)
        entries = [entry_of(request, Action.USER_REMOVE, obj, before=before)]
        entries += [
            entry_of(request, Action.MEMBER_REMOVE, obj, tenant=each.tenant, before=shown(each))
            for each in members
        ]
        super().delete_model(request, obj)  # type: ignore[misc]
        use_cases().repository.audit_log.append(entries)


def with_rules(admin_class: type[Any]) -> type[Any]:
    """An admin class; one of users behind the rules."""
    bases = {(base.__module__, base.__qualname__) for base in admin_class.__mro__}
    if _DJANGOS not in bases:
        return admin_class
    return type(admin_class.__name__, (AccountRules, admin_class), {})


def shown(member: TenantMember) -> dict[str, Any]:
    """A membership, for the log."""
    return {"user": member.user.get_username(), "tenant": member.tenant, "role": member.role}


def shown_user(user: Any) -> dict[str, Any]:
    """A user, for the log: without the password."""
    fields = {name: getattr(user, name) for name in _SHOWN if hasattr(user, name)}
    groups: Iterable[Model] = user.groups.all() if hasattr(user, "groups") else ()
    return {"user": user.get_username(), **fields, "groups": sorted(map(str, groups))}


def entry_of(
    request: HttpRequest,
    action: Action,
    user: Any,
    *,
    tenant: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> Entry:
    """What the audit log is to say of a change of a user or a membership: only what differs."""
    old, new = before or {}, after or {}
    return Entry(
        at=use_cases().repository.clock.now(),
        author=access(request).author,
        action=action,
        tenant_id=tenant,
        targets=(user.get_username(),),
        before={name: value for name, value in old.items() if new.get(name) != value},
        after={name: value for name, value in new.items() if old.get(name) != value},
    )


def record(request: HttpRequest, action: Action, user: Any, **changes: Any) -> None:
    """Write one such entry."""
    use_cases().repository.audit_log.append([entry_of(request, action, user, **changes)])


def _is_no_better(request: HttpRequest, user: Any) -> bool:
    """Whether a user is none that only superusers may touch."""
    return access(request).is_superuser or not getattr(user, "is_superuser", False)
