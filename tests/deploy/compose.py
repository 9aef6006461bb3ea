"""docker-compose.yml as Compose would read it, with an example of every value in .env."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography.fernet import Fernet

from tests.deploy.processes import Probe, Process

ROOT: Final = Path(__file__).resolve().parents[2]
FILE: Final = ROOT / "docker-compose.yml"
IMAGE: Final = "chronos:0.1.0"
# https://github.com/compose-spec/compose-spec/blob/main/12-interpolation.md: the forms used here.
_REFERENCE: Final = re.compile(
    r"\$(?:(?P<escaped>\$)|\{(?P<name>[A-Z_]+)(?P<kind>:-|:\?)(?P<rest>[^}]*)\})"
)


def example_settings() -> dict[str, str]:
    """.env.example, its empty lines included."""
    lines = (ROOT / "deploy/.env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def settings_of(**changes: str) -> dict[str, str]:
    """.env as deploy/README.md makes it."""
    made = {
        name: Fernet.generate_key().decode() if name == "ENCRYPTION_KEYS" else f"{name}0f" * 6
        for name in required_names()
        if not example_settings()[name]
    }
    return example_settings() | made | changes


def required_names() -> set[str]:
    """Variables without which Compose refuses the file."""
    return {each["name"] for each in _REFERENCE.finditer(FILE.read_text()) if each["kind"] == ":?"}


def referred_names() -> set[str]:
    """Variables that the file takes out of .env."""
    return {each["name"] for each in _REFERENCE.finditer(FILE.read_text()) if each["name"]}


def load(settings: Mapping[str, str]) -> dict[str, Any]:
    """The file with every reference replaced."""

    def replace(reference: re.Match[str]) -> str:
        if reference["escaped"]:
            return "$"
        value = settings.get(reference["name"])
        if reference["kind"] == ":-":
            return value or reference["rest"]
        assert value, f"{reference['name']} is required"
        return value

    def interpolate(node: Any) -> Any:
        match node:
            case dict():
                return {key: interpolate(value) for key, value in node.items()}
            case list():
                return [interpolate(value) for value in node]
            case str():
                assert "$" not in _REFERENCE.sub("", node), f"{node!r} has a reference unknown here"
                return _REFERENCE.sub(replace, node)
        return node

    return interpolate(yaml.safe_load(FILE.read_text()))  # type: ignore[no-any-return]


def processes(document: Mapping[str, Any]) -> dict[str, Process]:
    """The services that run Chronos's image, by name."""
    return {
        name: _process(name, service)
        for name, service in document["services"].items()
        if service["image"] == IMAGE
    }


def _process(name: str, service: Mapping[str, Any]) -> Process:
    return Process(
        where=f"docker-compose.yml: {name}",
        arguments=tuple(service["command"]),
        # Empty means the default.
        environment={key: value for key, value in service["environment"].items() if value},
        ports=frozenset(int(port) for port in service.get("expose", ())),
        probes=_probes(service),
    )


def _probes(service: Mapping[str, Any]) -> tuple[Probe, ...]:
    if service["healthcheck"].get("disable"):
        return ()
    *command, path = service["healthcheck"]["test"]
    assert command == ["CMD", "python", "-m", "chronos_site.healthcheck"]
    return (Probe(path, int(service["environment"]["METRICS_PORT"])),)
