"""Dead letters for people: in groups of the same error, and one by one."""

from __future__ import annotations

from collections.abc import Collection as AnyCollection
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pymongo import DESCENDING
from pymongo.collection import Collection

from jobs.bulk import NONE, Filter
from jobs.lifecycle import Status
from jobs.repository.endings import ERROR_GROUP
from jobs.repository.indexes import DEAD_LETTERS, DEAD_LETTERS_OF_TENANT
from jobs.repository.looks import Listed, Look, Place, holding
from jobs.repository.outages import outages_named

LOOKED_AT: Final = 100_000
"""Dead letters that groups and pages look at, at most: about 0.1 s."""
LOOKED_INTO: Final = 20_000
"""The same where the error texts themselves have to be read."""
WITHOUT_PAYLOAD: Final = {"payload": False, "result": False}

# Only instants are compared with one.
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_GROUPING: Final = {
    "$group": {
        "_id": {
            "tenant": "$tenantId",
            "type": "$jobType",
            "definition": "$definition",
            "error": f"${ERROR_GROUP}",
        },
        "count": {"$sum": 1},
        "firstAt": {"$min": "$finishedAt"},
        "lastAt": {"$max": "$finishedAt"},
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Dead letters of one tenant, type and definition that died of the same error."""

    tenant_id: str
    job_type: str
    definition: str
    """NONE: made without one."""
    error: str
    """NONE: in no group yet."""
    count: int
    first_at: datetime
    """When the first of them ended."""
    last_at: datetime

    @property
    def filter(self) -> Filter:
        """What finds them."""
        return Filter(
            tenant_id=self.tenant_id,
            job_type=self.job_type,
            definition=self.definition,
            error_group=self.error,
        )


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of some dead letters, the largest first."""

    groups: Sequence[Group]
    is_complete: bool
    """False: older ones were not looked at, as there are too many."""

    @property
    def count(self) -> int:
        """Dead letters in all groups."""
        return sum(group.count for group in self.groups)


class DeadLetterLists:
    """Groups and pages, by a filter and by whose dead letters one may see."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._jobs = collection

    @outages_named()
    def groups(self, wanted: Filter, tenants: AnyCollection[str] | None) -> Groups:
        """The groups of the newest dead letters.

        Args:
            wanted: which.
            tenants: only of these; None: of all.
        """
        among = wanted.tenants_within(tenants)
        hint = index_for(among)
        base = _ended(wanted, among)
        most = _looked_at(wanted)
        found = list(
            self._jobs.aggregate(
                [
                    {"$match": base},
                    {"$sort": {"finishedAt": DESCENDING, "_id": DESCENDING}},
                    # What else is wanted is looked for among these, so that the cost has a bound.
                    {"$limit": most + 1},
                    {"$match": _holding(wanted.error_text)},
                    _GROUPING,
                ],
                hint=hint,
            )
        )
        looked_at = sum(document["count"] for document in found)
        if wanted.error_text is not None:
            looked_at = self._jobs.count_documents(base, hint=hint, limit=most + 1)
        groups = [group for group in _readable(found) if _is_wanted(group, wanted)]
        groups.sort(key=lambda group: (group.count, group.last_at), reverse=True)
        return Groups(groups, looked_at <= most)

    @outages_named()
    def page(
        self,
        wanted: Filter,
        tenants: AnyCollection[str] | None,
        *,
        limit: int,
        before: Place | None = None,
    ) -> Listed:
        """Dead letters, the latest end first, without payloads.

        It looks at as many as the groups are made of, however few of them are wanted.

        Args:
            wanted: which.
            tenants: only of these; None: of all.
            limit: at most so many.
            before: where the page before ended; None: from the newest.
        """
        among = wanted.tenants_within(tenants)
        look = Look(
            index=index_for(among),
            among=_dead(among),
            by="finishedAt",
            filters=_equal(wanted) | _holding(wanted.error_text),
            most=_looked_at(wanted),
            without=WITHOUT_PAYLOAD,
            since=wanted.since,
            until=wanted.until,
        )
        return look.page(self._jobs, limit=limit, before=before)


def query_for(wanted: Filter, among: Sequence[str] | None) -> dict[str, Any]:
    """What finds the dead letters of a filter.

    Args:
        wanted: the filter.
        among: its tenants, from `Filter.tenants_within`.
    """
    return _ended(wanted, among) | _equal(wanted) | _holding(wanted.error_text)


def _equal(wanted: Filter) -> dict[str, str | None]:
    fields = {
        "jobType": wanted.job_type,
        "definition": wanted.definition,
        ERROR_GROUP: wanted.error_group,
    }
    # Null also finds what is not there.
    return {
        name: None if value == NONE else value
        for name, value in fields.items()
        if value is not None
    }


def index_for(among: Sequence[str] | None) -> str:
    """The index that finds them in the order of their ends."""
    return DEAD_LETTERS if among is None else DEAD_LETTERS_OF_TENANT


def _ended(wanted: Filter, among: Sequence[str] | None) -> dict[str, Any]:
    bounds = {"$gte": wanted.since or _LONG_AGO}
    if wanted.until is not None:
        bounds["$lt"] = wanted.until
    return _dead(among) | {"finishedAt": bounds}


def _dead(among: Sequence[str] | None) -> dict[str, Any]:
    query: dict[str, Any] = {"status": str(Status.DLQ)}
    if among is not None:
        query["tenantId"] = {"$in": list(among)}
    return query


def _holding(text: str | None) -> dict[str, Any]:
    return {} if text is None else {"lastError": holding(text)}


def _looked_at(wanted: Filter) -> int:
    return LOOKED_AT if wanted.error_text is None else LOOKED_INTO


def _is_wanted(group: Group, wanted: Filter) -> bool:
    pairs = (
        (wanted.job_type, group.job_type),
        (wanted.definition, group.definition),
        (wanted.error_group, group.error),
    )
    return all(asked is None or asked == there for asked, there in pairs)


def _readable(documents: Iterable[Mapping[str, Any]]) -> Iterator[Group]:
    """Without those whose fields were edited by hand into what no filter finds."""
    for document in documents:
        key = document["_id"]
        tenant_id, job_type = key.get("tenant"), key.get("type")
        definition, error = key.get("definition") or NONE, key.get("error") or NONE
        ends = document["firstAt"], document["lastAt"]
        if all(isinstance(each, str) for each in (tenant_id, job_type, definition, error)) and all(
            isinstance(each, datetime) for each in ends
        ):
            yield Group(
                tenant_id=tenant_id,
                job_type=job_type,
                definition=definition,
                error=error,
                count=document["count"],
                first_at=ends[0],
                last_at=ends[1],
            )
