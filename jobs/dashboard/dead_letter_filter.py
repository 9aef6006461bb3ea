"""The filter of the dead letters' page, as it stands in an address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from jobs.bulk import NONE, Filter
from jobs.dashboard.typed import typed_instant
from jobs.instants import parse_instant

_TEXTS: Final = {
    "tenant": "tenant_id",
    "type": "job_type",
    "definition": "definition",
    "group": "error_group",
    "text": "error_text",
}
_INSTANTS: Final = {"since": "since", "until": "until"}
_LONGEST: Final = 1_000
# An empty field asks for nothing in particular.
_WITHOUT: Final = "without"


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody asked for."""

    filter: Filter
    typed: Mapping[str, str]
    """As it was typed, by the name of the field."""
    problems: Mapping[str, str]
    """Sentences, by the name of the field. Where there are any, the filter is none."""

    @property
    def query(self) -> str:
        """The filter in an address."""
        return query_of(self.filter)

    @property
    def is_filtered(self) -> bool:
        return bool(self.query)

    @property
    def words(self) -> list[str]:
        """The filter, for people, part by part."""
        return list(words_of(self.filter))


def asked_for(fields: Mapping[str, str], without: list[str]) -> Asked:
    """What the parameters of an address ask for.

    Args:
        fields: the parameters.
        without: all values of the parameter `without`: fields that must be lacking.
    """
    typed = {name: fields.get(name, "").strip()[:_LONGEST] for name in (*_TEXTS, *_INSTANTS)}
    values: dict[str, str] = {_TEXTS[name]: typed[name] for name in _TEXTS if typed[name]}
    values |= {_TEXTS[name]: NONE for name in ("definition", "group") if name in without}
    instants: dict[str, datetime] = {}
    problems = {}
    for name in _INSTANTS:
        try:
            if (at := typed_instant(typed[name])) is not None:
                instants[name] = at
        except ValueError as exc:
            problems[name] = str(exc)
    return Asked(
        Filter(**values, since=instants.get("since"), until=instants.get("until")), typed, problems
    )


def query_of(wanted: Filter) -> str:
    """The address's part that asks for a filter; "" where it asks for all."""
    pairs: list[tuple[str, str]] = []
    for name, field in _TEXTS.items():
        value: str | None = getattr(wanted, field)
        if value == NONE:
            pairs.append((_WITHOUT, name))
        elif value is not None:
            pairs.append((name, value))
    for name, at in (("since", wanted.since), ("until", wanted.until)):
        if at is not None:
            pairs.append((name, f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}"))
    return urlencode(pairs)


def words_of(wanted: Filter) -> Iterator[str]:
    """A filter for people, part by part."""
    if wanted.tenant_id is not None:
        yield f"tenant {wanted.tenant_id}"
    if wanted.job_type is not None:
        yield f"job type {wanted.job_type}"
    if wanted.definition is not None:
        yield f"definition {wanted.definition}" if wanted.definition else "without a definition"
    if wanted.error_group is not None:
        yield f"error “{wanted.error_group}”" if wanted.error_group else "in no group of errors"
    if wanted.error_text is not None:
        yield f"“{wanted.error_text}” in the error"
    if wanted.since is not None:
        yield f"ended at {wanted.since:%Y-%m-%d %H:%M:%S} UTC or later"
    if wanted.until is not None:
        yield f"ended before {wanted.until:%Y-%m-%d %H:%M:%S} UTC"


def words_of_told(told: Mapping[str, Any]) -> str | None:
    """A filter as the audit log tells it, for people; None: it is none."""
    try:
        values: dict[str, Any] = {
            name: parse_instant(value) if name in _INSTANTS.values() else value
            for name, value in told.items()
        }
        return ", ".join(words_of(Filter(**values)))
    except (TypeError, ValueError):
        return None
