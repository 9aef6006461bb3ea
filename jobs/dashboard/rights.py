"""What a user may see and do. Superusers may everything; others what their memberships say."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

from jobs.audit import Author, Via
from jobs.dashboard.models import Role, TenantMember
from jobs.logs import events

logger = logging.getLogger(__name__)


class Right(IntEnum):
    """Each holds the ones before."""

    VIEW = 1
    OPERATE = 2
    """Act on jobs, dead letters and templates; make templates."""
    ADMINISTER = 3
    """Change definitions, which say where deliveries go, and members."""


_RIGHTS: Final[Mapping[str, Right]] = {
    Role.VIEWER: Right.VIEW,
    Role.OPERATOR: Right.OPERATE,
    Role.ADMIN: Right.ADMINISTER,
}


@dataclass(frozen=True, slots=True)
class Access:
    """One user's rights, as of one request."""

    author: Author
    is_superuser: bool = False
    is_staff: bool = False
    """Sees Django's own pages of users, as far as Django's permissions say."""
    rights: Mapping[str, Right] = field(default_factory=dict)
    """By tenant; of a superuser empty."""

    @property
    def may_enter(self) -> bool:
        """Whether there is anything here for the user."""
        return self.is_superuser or self.is_staff or bool(self.rights)

    @property
    def tenants(self) -> frozenset[str] | None:
        """Those whose documents may be read; None: all. For the queries."""
        return None if self.is_superuser else frozenset(self.rights)

    def sees(self, tenant_id: str) -> bool:
        """Whether this tenant's documents may be shown."""
        return self.may(tenant_id, Right.VIEW)

    def may(self, tenant_id: str, right: Right) -> bool:
        """Whether the user has a right in a tenant."""
        return self.is_superuser or self.rights.get(tenant_id, 0) >= right

    def tenants_with(self, right: Right) -> frozenset[str] | None:
        """The tenants in which the user has a right; None: all."""
        if self.is_superuser:
            return None
        return frozenset(tenant for tenant, held in self.rights.items() if held >= right)

    def has_somewhere(self, right: Right) -> bool:
        """Whether there is a tenant in which the user has a right."""
        return self.is_superuser or any(held >= right for held in self.rights.values())


def access_of(user: AbstractBaseUser | AnonymousUser) -> Access:
    """A user's rights; one query unless it is a superuser or nobody."""
    author = Author(user.get_username(), Via.ADMIN)
    if not user.is_active or user.is_anonymous:
        return Access(author)
    is_staff = bool(getattr(user, "is_staff", False))
    if getattr(user, "is_superuser", False):
        return Access(author, True, is_staff)
    rights = {}
    for tenant, role in TenantMember.objects.filter(user_id=user.pk).values_list("tenant", "role"):
        # What somebody edited into something else lets nobody in.
        if isinstance(tenant, str) and isinstance(role, str) and role in _RIGHTS:
            rights[tenant] = _RIGHTS[role]
        else:
            name = user.get_username()
            extra = events.MEMBERSHIP_UNREADABLE(user=name)
            logger.warning("a membership of %s cannot be read", name, extra=extra)
    return Access(author, False, is_staff, rights)
