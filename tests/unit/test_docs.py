"""The documents tell the truth: what the code has they name, and what they name the code has."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.conf import global_settings
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand
from prometheus_client import REGISTRY

import chronos_site
from chronos_site import env
from chronos_site.transport import KAFKA_PROTOCOLS
from jobs.errors import ChronosError
from jobs.lifecycle import (
    MOVES,
    Attempt,
    CatchUp,
    Job,
    Outcome,
    Overlap,
    Response,
    Status,
    job_id_for,
)
from jobs.repository.documents import to_document
from tests.builders import NOW

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
}
OURS = ("chronos_site", "jobs", "scheduler", "executor", "reaper", "devstack")
SHELL = ("bash", "sh")
FOREIGN_VARIABLES = {
    *("DJANGO_SETTINGS_MODULE", "SSL_CERT_FILE"),
    *("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_CERTIFICATE"),
}
VALUES = set(KAFKA_PROTOCOLS)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_METRIC = re.compile(
    r"\b(?:(?:scheduler|executor|reaper|api|jobs)_[a-z_]+|executors_serving"
    r"|(?:store|broker)_errors(?:_total)?|chronos_build_info)\b"
)
_COMMAND = re.compile(r"manage\.py +([a-z]\w*)([^|&;#\n]*)")
_TARGET = re.compile(r"(?:^|[;&|]) *make +([a-z]\w*)", re.MULTILINE)


def prose(page: str) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", PAGES[page])


def fences(page: str, *languages: str) -> list[str]:
    """The page's fenced blocks in these languages."""
    return [text for language, text in _FENCE.findall(PAGES[page]) if language in languages]


def code(page: str) -> str:
    """Everything on a page that is set as code, but for program text."""
    return "\n".join([*_CODE_SPAN.findall(prose(page)), *fences(page, "", *SHELL, "json")])


def section(page: str, heading: str) -> str:
    """The text below a heading of the second level."""
    match = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", prose(page), re.M | re.S)
    assert match is not None, f"{page} has no section {heading!r}"
    return match[1]


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, without heads and backticks."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    heads = {i - 1 for i, line in enumerate(lines) if set(line) <= set("|-")}
    return [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        for i, line in enumerate(lines)
        if i not in heads and i - 1 not in heads
    ]


@cache
def modules() -> list[ModuleType]:
    """Every module of ours, imported: only then are all errors and metrics defined."""
    packages = [importlib.import_module(name) for name in OURS]
    return packages + [
        importlib.import_module(module.name)
        for package in packages
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    ]


def metric_names() -> set[str]:
    modules()
    return {
        family.name + ("_total" if family.type == "counter" else "")
        for family in REGISTRY.collect()
        if _METRIC.fullmatch(family.name)
    }


def error_codes() -> set[str]:
    def tree(error: type[ChronosError]) -> Iterator[type[ChronosError]]:
        yield error
        for child in error.__subclasses__():
            yield from tree(child)

    modules()
    return {error.code for error in tree(ChronosError) if error.__module__.startswith(OURS)}


def options(parser: argparse.ArgumentParser) -> set[str]:
    return {
        option
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for option in action.option_strings
        if option.startswith("--")
    }


def parser_of(command: BaseCommand, name: str) -> argparse.ArgumentParser:
    return command.create_parser("manage.py", name)


def our_commands() -> set[tuple[str, str]]:
    """Each command of ours with each option that it adds; "–" where it adds none."""
    found: set[tuple[str, str]] = set()
    for name, app in get_commands().items():
        if app.partition(".")[0] not in OURS:
            continue
        command = load_command_class(app, name)
        # What Django's own command, or every command, has is not ours to explain.
        theirs = next(c for c in type(command).__mro__ if not c.__module__.startswith(OURS))
        added = options(parser_of(command, name)) - options(parser_of(theirs(), name))
        found |= {(name, option) for option in added or {"–"}}
    return found


def test_lifecycle_names_every_status() -> None:
    named = [row[0] for row in rows(section("docs/lifecycle.md", "Statuses"))]

    assert named == [str(status) for status in Status]


def test_lifecycle_lists_every_move_and_who_makes_it() -> None:
    listed = {
        (start, end): set(actors.split(", "))
        for move, actors, *_ in rows(section("docs/lifecycle.md", "Moves"))
        for starts, end in [move.split(" → ")]
        for start in starts.split(", ")
        if start != "–"
    }

    assert listed == {
        (str(start), str(end)): {str(actor) for actor in actors}
        for (start, end), actors in MOVES.items()
    }


@pytest.mark.parametrize("option", [*Outcome, *CatchUp, *Overlap])
def test_lifecycle_explains_every_option(option: str) -> None:
    assert str(option) in _CODE_SPAN.findall(prose("docs/lifecycle.md"))


def test_lifecycle_describes_every_field_of_a_document() -> None:
    attempt = Attempt(
        1, "executor-1", NOW, NOW, Outcome.FAILED, "error", "ValueError", Response(503, "")
    )
    filled: dict[str, Any] = {field.name: "something" for field in dataclasses.fields(Job)}
    job = Job(**(filled | {"id": job_id_for("key"), "history": [attempt]}))
    document = to_document(job)

    described = {
        row[0]: row for row in rows(section("docs/lifecycle.md", "Fields of the document"))
    }

    # Two are written beside a job, not with it.
    assert described.keys() == document.keys() | {"dlqPublishedAt", "errorGroup"}
    assert all(name in described["history"][2] for name in document["history"][0])


def test_settings_page_has_every_variable_with_its_default() -> None:
    listed = {name: default for name, default, *_ in rows(PAGES["docs/settings.md"])}

    assert listed == {
        name: "unset" if variable.default is None else variable.default
        for name, variable in env.VARIABLES.items()
    }


def test_operations_page_has_every_metric() -> None:
    listed = {row[0] for row in rows(section("docs/operations.md", "Metrics"))}

    assert {name for name in listed if _METRIC.fullmatch(name)} == metric_names()


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["version"] == chronos_site.VERSION


def test_operations_page_has_every_error_code() -> None:
    listed = {row[0] for row in rows(section("docs/operations.md", "Errors"))}

    assert listed == error_codes()


def test_operations_page_has_every_command_and_option() -> None:
    listed = {(row[0], row[1]) for row in rows(section("docs/operations.md", "Commands"))}

    assert listed == our_commands()


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_that_is_named_exists(page: str) -> None:
    named = set(_VARIABLE.findall(code(page)))

    unknown = named - env.VARIABLES.keys() - FOREIGN_VARIABLES - VALUES

    assert not {name for name in unknown if not hasattr(global_settings, name)}


@pytest.mark.parametrize("page", PAGES)
def test_every_metric_that_is_named_exists(page: str) -> None:
    named = {re.sub(r"_(bucket|sum|count)$", "", name) for name in _METRIC.findall(code(page))}

    assert named <= metric_names()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_inside_the_project_leads_somewhere(page: str) -> None:
    text = _CODE_SPAN.sub("", prose(page))
    targets = [link for link in _LINK.findall(text) if not link.startswith(("http:", "https:"))]

    broken = [target for target in targets if not _leads_somewhere(page, target)]

    assert not broken


def _leads_somewhere(page: str, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = (ROOT / page).parent / path if path else ROOT / page
    if not anchor:
        return file.exists()
    linked = PAGES.get(str(file.resolve().relative_to(ROOT)))
    name = str(file.resolve().relative_to(ROOT))
    return linked is not None and anchor in {_anchor(h) for h in _HEADING.findall(prose(name))}


def _anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_in_a_shell_block_exists(page: str) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    named = _TARGET.findall("\n".join(fences(page, *SHELL)))

    assert set(named) <= set(targets)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_is_named_exists_with_its_options(page: str) -> None:
    for name, rest in _COMMAND.findall(code(page).replace("\\\n", " ")):
        assert name in get_commands(), f"there is no command {name}"
        command = load_command_class(get_commands()[name], name)
        named = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", rest))
        assert named <= options(parser_of(command, name)), f"manage.py {name} {rest}"
