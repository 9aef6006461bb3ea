"""What the audit log is to say of users, groups and members. Passwords never."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jobs.audit import Action, Author, Entry
from jobs.dashboard.models import TenantMember
from jobs.dashboard.page import use_cases

_SHOWN: Final = ("is_active", "is_superuser", "is_staff", "first_name", "last_name", "email")


def shown_member(member: TenantMember) -> dict[str, Any]:
    """A membership."""
    return {"user": member.user.get_username(), "tenant": member.tenant, "role": member.role}


def shown_user(user: Any) -> dict[str, Any]:
    """A user, with what gives it rights in Django."""
    fields = {name: getattr(user, name) for name in _SHOWN if hasattr(user, name)}
    if hasattr(user, "groups"):
        fields["groups"] = sorted(map(str, user.groups.all()))
    if hasattr(user, "user_permissions"):
        fields["permissions"] = _names(user.user_permissions)
    return {"user": user.get_username(), **fields}


def shown_group(group: Any) -> dict[str, Any]:
    """A group, with what it allows its users."""
    return {"group": group.name, "permissions": _names(group.permissions)}


def entry(
    by: Author,
    action: Action,
    name: str,
    *,
    tenant: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> Entry:
    """What somebody changed: of `before` and `after` only what differs.

    Args:
        by: who.
        action: what was done.
        name: of the user or group.
        tenant: of a membership.
        before: as it was; None: it is new.
        after: as it is; None: it is gone.
    """
    old, new = before or {}, after or {}
    return Entry(
        at=use_cases().repository.clock.now(),
        author=by,
        action=action,
        tenant_id=tenant,
        targets=(name,),
        before={name: value for name, value in old.items() if new.get(name) != value},
        after={name: value for name, value in new.items() if old.get(name) != value},
    )


def record(by: Author, action: Action, name: str, **changes: Any) -> None:
    """Write one such entry."""
    use_cases().repository.audit_log.append([entry(by, action, name, **changes)])


def _names(permissions: Any) -> list[str]:
    pairs = permissions.values_list("content_type__app_label", "codename")
    return sorted(f"{app}.{name}" for app, name in pairs)
