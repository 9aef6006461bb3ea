"""Every line of ours names an event, and the registry tells the truth about it."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobs.logs import events
from jobs.logs.events import Event
from jobs.logs.fields import ALWAYS, SOMETIMES
from tests.unit.test_docs import rows, section

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("chronos_site", "jobs", "scheduler", "executor", "reaper", "devstack")
METHODS = {
    "debug": events.DEBUG,
    "info": events.INFO,
    "warning": events.WARNING,
    "error": events.ERROR,
    "exception": events.ERROR,
    "critical": None,
    "log": None,
}
BY_CONSTANT = {name: value for name, value in vars(events).items() if isinstance(value, Event)}


@dataclass(frozen=True)
class Call:
    """A call of a logger."""

    place: str
    method: str
    event: str | None
    """The constant that it names."""
    fields: frozenset[str | None] = frozenset()


def calls_in(source: str, name: str) -> Iterator[Call]:
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        nodes = [node for node in ast.walk(function) if isinstance(node, ast.expr | ast.stmt)]
        # `extra = events.NAME(...)` stands above its call.
        named: dict[int, ast.expr] = {
            node.lineno: node.value
            for node in nodes
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "extra"
        }
        for node in nodes:
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner = node.func.value
            if not (isinstance(owner, ast.Name) and owner.id == "logger"):
                continue
            if node.func.attr not in METHODS:
                continue
            extra = next((each.value for each in node.keywords if each.arg == "extra"), None)
            if isinstance(extra, ast.Name) and (above := [at for at in named if at < node.lineno]):
                extra = named[max(above)]
            place, method = f"{name}:{node.lineno}", node.func.attr
            match extra:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="events"), attr=constant)):
                    fields = frozenset(each.arg for each in extra.keywords)
                    yield Call(place, method, constant, fields)
                case _:
                    yield Call(place, method, None)


def calls() -> list[Call]:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    found = {
        call for path in paths for call in calls_in(path.read_text(), str(path.relative_to(ROOT)))
    }
    return sorted(found, key=lambda call: call.place)


def test_every_call_of_a_logger_names_a_registered_event() -> None:
    found = calls()

    assert len(found) > 70
    assert [call for call in found if call.event not in BY_CONSTANT] == []


def test_every_call_of_a_logger_has_the_level_of_its_event() -> None:
    wrong = [
        call for call in calls() if METHODS[call.method] != BY_CONSTANT[call.event or ""].level
    ]

    assert wrong == []


def test_every_event_is_told_by_somebody() -> None:
    told = {call.event for call in calls()}

    # The adapter of `context.logger` names the first, the formatter the second.
    assert BY_CONSTANT.keys() - told == {"HANDLER_LOGGED", "LIBRARY"}


def test_a_call_without_an_event_would_be_found() -> None:
    source = """
def f():
    logger.info("a", extra={"job_id": 1})
    extra = events.LEADER_LOST()
    logger.warning("b", extra=extra)
    logger.warning("c")
"""

    assert list(calls_in(source, "m")) == [
        Call("m:3", "info", None),
        Call("m:5", "warning", "LEADER_LOST"),
        Call("m:6", "warning", None),
    ]


def test_names_of_events_are_unique_and_well_formed() -> None:
    names = [event.name for event in events.ALL]

    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", name)] == []


def test_no_line_has_a_field_that_logging_keeps_for_itself() -> None:
    kept = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}

    assert [call for call in calls() if call.fields & kept] == []


def test_the_page_lists_every_event_with_its_level_and_meaning() -> None:
    listed = [tuple(row) for row in rows(section("docs/logs.md", "Events"))]

    levels = {events.DEBUG: "debug", events.INFO: "info"}
    levels |= {events.WARNING: "warning", events.ERROR: "error"}
    assert listed == [
        (event.name, levels[event.level], event.meaning.replace("`", "")) for event in events.ALL
    ]


def test_the_page_lists_every_stable_key() -> None:
    listed = [key for row in rows(section("docs/logs.md", "Keys")) for key in row[0].split(", ")]

    assert listed == [*ALWAYS, *SOMETIMES]
