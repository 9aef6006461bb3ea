"""Bulk operations as MongoDB documents, both ways."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from bson import ObjectId

from jobs.audit import Author, Via
from jobs.bulk import Filter, Kind, Operation, State
from jobs.logs import events
from jobs.repository.documents import check_kinds

logger = logging.getLogger(__name__)

_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "_id": ObjectId,
    **dict.fromkeys(("filter", "skipped", "place"), dict),
    **dict.fromkeys(("author", "runner", "failure"), str),
    **dict.fromkeys(("startedAt", "endedAt"), datetime),
    **dict.fromkeys(("total", "done"), int),
}
_FILTER_KINDS: Final[Mapping[str, type]] = {
    field.name: datetime if field.name in ("since", "until") else str for field in fields(Filter)
}


def operation_document(operation: Operation) -> dict[str, Any]:
    """The document of an operation that is to be done."""
    return {
        "_id": operation.id,
        "kind": str(operation.kind),
        "filter": filter_document(operation.filter),
        "tenants": None if operation.tenants is None else list(operation.tenants),
        "author": operation.author.name,
        "via": str(operation.author.via),
        "startedAt": operation.started_at,
        "state": str(operation.state),
        "total": operation.total,
        "isTotalExact": operation.is_total_exact,
        "done": operation.done,
        "skipped": dict(operation.skipped),
        "turnAt": operation.started_at,
    }


def filter_document(wanted: Filter) -> dict[str, Any]:
    """What a filter asks for, by the name of its field."""
    values = {field.name: getattr(wanted, field.name) for field in fields(wanted)}
    return {name: value for name, value in values.items() if value is not None}


def operation_from(document: Mapping[str, Any]) -> Operation:
    """The operation that a document holds.

    Raises:
        ValueError: a field is missing, or holds what it cannot, as after an edit by hand.
    """
    check_kinds(document, _KINDS)
    try:
        check_kinds(document["filter"], _FILTER_KINDS)
        check_kinds(document["skipped"], dict.fromkeys(document["skipped"], int))
        place, tenants = document.get("place"), document["tenants"]
        return Operation(
            id=document["_id"],
            kind=Kind(document["kind"]),
            filter=Filter(**document["filter"]),
            tenants=None if tenants is None else tuple(map(str, tenants)),
            author=Author(document["author"], Via(document["via"])),
            started_at=document["startedAt"],
            state=State(document["state"]),
            total=document["total"],
            is_total_exact=document["isTotalExact"] is True,
            done=document["done"],
            skipped=document["skipped"],
            place=None if place is None else (place["at"], place["id"]),
            runner=document.get("runner"),
            ended_at=document.get("endedAt"),
            failure=document.get("failure"),
        )
    except (KeyError, TypeError) as exc:
        raise ValueError(f"{exc} is missing, or none of its fields") from exc


def readable(document: Mapping[str, Any]) -> Operation | None:
    """The same; None, and a line in the log, for what cannot be read."""
    try:
        return operation_from(document)
    except ValueError as exc:
        extra = events.RECORD_UNREADABLE(error=exc)
        logger.warning("left out: bulk operation %r: %s", document["_id"], exc, extra=extra)
        return None
