"""Who did what, when, and what it changed: the entries of the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from bson import ObjectId


class Via(StrEnum):
    """By which door somebody came in."""

    ADMIN = "admin"
    API = "api"
    COMMAND = "command"
    ROLE = "role"
    """Nobody: a role did it by itself, as when the end of a pause has come."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who acts."""

    name: str
    via: Via


API_CLIENT: Final = Author("API client", Via.API)
"""The API does not ask who calls."""


class Action(StrEnum):
    """What can be done to what."""

    JOB_CLONE = "job.clone"
    JOB_CANCEL = "job.cancel"
    JOB_REDRIVE = "job.redrive"
    JOB_DISCARD = "job.discard"
    JOB_RESCHEDULE = "job.reschedule"
    JOB_PRIORITY = "job.priority"
    JOB_RUN_NOW = "job.run_now"
    TEMPLATE_CREATE = "template.create"
    TEMPLATE_EDIT = "template.edit"
    TEMPLATE_PAUSE = "template.pause"
    TEMPLATE_RESUME = "template.resume"
    TEMPLATE_RUN = "template.run"
    TEMPLATE_BACKFILL = "template.backfill"
    DEFINITION_CREATE = "definition.create"
    DEFINITION_CHANGE = "definition.change"
    DEFINITION_DELETE = "definition.delete"
    BULK_START = "bulk.start"
    BULK_CANCEL = "bulk.cancel"
    BULK_END = "bulk.end"
    MEMBER_ADD = "member.add"
    MEMBER_CHANGE = "member.change"
    MEMBER_REMOVE = "member.remove"
    USER_ADD = "user.add"
    USER_CHANGE = "user.change"
    USER_REMOVE = "user.remove"
    GROUP_ADD = "group.add"
    GROUP_CHANGE = "group.change"
    GROUP_REMOVE = "group.remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One action. It is written once and never changed."""

    at: datetime
    author: Author
    action: Action
    tenant_id: str
    """Of what it was done to; "" for what belongs to no tenant."""
    targets: tuple[str, ...]
    """Ids of jobs, names of definitions, users and groups: what it was done to."""
    before: Mapping[str, Any] = field(default_factory=dict)
    """What changed, as the API shows it (JSON values, secrets left out); empty for what is new."""
    after: Mapping[str, Any] = field(default_factory=dict)
    operation_id: str | None = None
    """The bulk operation that it is a part of."""
    id: ObjectId = field(default_factory=ObjectId)
