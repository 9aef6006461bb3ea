"""The audit log: who did what, when, and what it changed. Nothing here changes anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from jobs.audit import Action, Entry
from jobs.dashboard.dead_letter_filter import words_of_told
from jobs.dashboard.keyset import older_link, place_in
from jobs.dashboard.page import PageRequest, access, page, use_cases
from jobs.repository.audit_log import BrokenEntry, Place

_PER_PAGE: Final = 50
_TARGETS_SHOWN: Final = 3
_FIELDS_SHOWN: Final = 4
_TEXT_SHOWN: Final = 200
_NOTHING: Final = "–"
DONE: Final[Mapping[Action, str]] = {
    Action.JOB_CLONE: "cloned a job",
    Action.JOB_CANCEL: "cancelled a job",
    Action.JOB_REDRIVE: "redrove a job",
    Action.JOB_DISCARD: "discarded a dead letter",
    Action.JOB_RESCHEDULE: "rescheduled a job",
    Action.JOB_PRIORITY: "changed a job's priority",
    Action.JOB_RUN_NOW: "made a job due now",
    Action.TEMPLATE_CREATE: "created a template",
    Action.TEMPLATE_EDIT: "edited a template",
    Action.TEMPLATE_PAUSE: "paused a template",
    Action.TEMPLATE_RESUME: "resumed a template",
    Action.TEMPLATE_RUN: "ran a template",
    Action.TEMPLATE_BACKFILL: "backfilled a template",
    Action.DEFINITION_CREATE: "created a definition",
    Action.DEFINITION_CHANGE: "changed a definition",
    Action.DEFINITION_DELETE: "deleted a definition",
    Action.BULK_START: "started a bulk operation",
    Action.BULK_CANCEL: "cancelled a bulk operation",
    Action.BULK_END: "ended a bulk operation",
    Action.MEMBER_ADD: "added a member",
    Action.MEMBER_CHANGE: "changed a member",
    Action.MEMBER_REMOVE: "removed a member",
    Action.USER_ADD: "added a user",
    Action.USER_CHANGE: "changed a user",
    Action.USER_REMOVE: "removed a user",
    Action.GROUP_ADD: "added a group",
    Action.GROUP_CHANGE: "changed a group",
    Action.GROUP_REMOVE: "removed a group",
}
"""What somebody did: the end of a sentence that begins with who."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one field."""

    name: str
    before: str
    after: str

    @property
    def is_hidden(self) -> bool:
        """Both sides look the same: what changed is a secret."""
        return self.before == self.after


@dataclass(frozen=True, slots=True)
class Row:
    """An entry as the list shows it."""

    entry: Entry
    done: str
    """What the author did: the end of a sentence."""
    targets: tuple[str, ...]
    more_targets: int
    changes: tuple[Change, ...]
    is_folded: bool
    """It changed much."""

    @property
    def kind(self) -> str:
        """What was acted on: job, template, definition, bulk, member, user, group."""
        return self.entry.action.partition(".")[0]


@require_safe
def audit(request: PageRequest) -> HttpResponse:
    """/admin/audit/"""
    wanted = {name: request.GET.get(name, "").strip() for name in ("tenant", "author", "target")}
    action = request.GET.get("action", "")
    tenants = access(request).tenants
    if wanted["tenant"]:
        tenants = frozenset({wanted["tenant"]} if access(request).sees(wanted["tenant"]) else ())
    entries: list[Entry] = []
    rest: Place | None = None
    broken: list[BrokenEntry] = []
    if not action or action in set(Action):
        entries, rest = use_cases().repository.audit_log.page(
            tenants,
            limit=_PER_PAGE,
            target=wanted["target"] or None,
            action=Action(action) if action else None,
            author=wanted["author"] or None,
            before=place_in(request),
            broken=broken,
        )
    context = {
        "broken": broken,
        "rows": [_row(entry) for entry in entries],
        "wanted": {**wanted, "action": action},
        "is_filtered": bool(action or any(wanted.values())),
        "actions": sorted(DONE.items(), key=lambda item: item[1]),
        "older": older_link(request, rest),
    }
    return page(request, "dashboard/audit.html", "Audit log", context)


def _row(entry: Entry) -> Row:
    names = dict.fromkeys((*entry.before, *entry.after))
    changes = tuple(
        Change(name, _text(entry.before, name), _text(entry.after, name)) for name in names
    )
    longest = max((len(text) for each in changes for text in (each.before, each.after)), default=0)
    return Row(
        entry,
        DONE[entry.action],
        entry.targets[:_TARGETS_SHOWN],
        max(0, len(entry.targets) - _TARGETS_SHOWN),
        changes,
        len(changes) > _FIELDS_SHOWN or longest > _TEXT_SHOWN,
    )


def _text(fields: Mapping[str, Any], name: str) -> str:
    if name not in fields:
        return _NOTHING
    value = fields[name]
    if name == "filter" and isinstance(value, Mapping) and (told := words_of_told(value)):
        return told
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
