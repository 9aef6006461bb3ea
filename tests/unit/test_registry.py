"""Handlers that cannot be used are refused in one sentence, wherever they are loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.core.management.base import SystemCheckError
from django.test import override_settings

from jobs import registry
from jobs.errors import ConfigError

COMMANDS = ("runapi", "runscheduler", "runexecutor", "runreaper", "migrate")
BROKEN = {
    "from nowhere_at_all import thing": "ModuleNotFoundError: No module named 'nowhere_at_all'",
    "def broken(:": "SyntaxError: ",
    "from jobs.registry import handler\nhandler('noop')(print)": "'noop' is registered in",
    "from jobs.registry import handler\nhandler('a b')(print)": "job types have 1 to 200",
    "from jobs.registry import handler\nhandler('http')(print)": "taken by the built-in delivery",
}


@pytest.fixture(params=BROKEN)
def broken_shop(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """An installed app whose `handlers.py` cannot be used; gives the reason."""
    package = tmp_path / "broken_shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "handlers.py").write_text(request.param)
    monkeypatch.syspath_prepend(tmp_path)
    registry.handlers()
    monkeypatch.setattr(registry, "_handlers", dict(registry._handlers))
    installed = [config.name for config in apps.get_app_configs()]
    with override_settings(INSTALLED_APPS=["broken_shop", *installed]):
        yield BROKEN[request.param]
    for name in ("broken_shop", "broken_shop.handlers"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("command", COMMANDS)
def test_broken_handlers_stop_every_command_with_one_sentence(
    broken_shop: str, command: str
) -> None:
    with pytest.raises(CommandError) as refused:
        call_command(command)

    assert str(refused.value).startswith("broken_shop.handlers cannot be ")
    assert broken_shop in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_checks_find_broken_handlers(broken_shop: str) -> None:
    with pytest.raises(SystemCheckError, match=r"broken_shop\.handlers cannot be") as refused:
        call_command("check")

    assert broken_shop in str(refused.value)


async def a_coroutine(context: registry.Context) -> None:
    """Would never run: calling it makes an object."""


def a_generator(context: registry.Context) -> Iterator[None]:
    yield


@pytest.mark.parametrize("function", [a_coroutine, a_generator])
def test_only_plain_functions_are_registered(function: registry.HandlerFunction) -> None:
    with pytest.raises(ConfigError, match="'test-odd': must be a plain function"):
        registry.handler("test-odd")(function)

    assert "test-odd" not in registry.handlers()
