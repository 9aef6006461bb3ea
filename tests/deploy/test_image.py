"""The Dockerfile, what goes into the image, and its health check."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from django.conf import settings

from chronos_site import env
from chronos_site.config import config_from
from devstack.process import free_port
from tests.processes import RoleProcess

ROOT: Final = Path(__file__).resolve().parents[2]
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text()

USE_WITHOUT_DEVELOPMENT: Final = """
import re, sys
from importlib.metadata import packages_distributions
from pathlib import Path

named = re.findall(r"^([A-Za-z0-9_-]+)==", Path("requirements-dev.txt").read_text(), re.MULTILINE)
canonical = {name.lower().replace("_", "-") for name in named}
for module, distributions in packages_distributions().items():
    if {each.lower().replace("_", "-") for each in distributions} & canonical:
        sys.modules[module] = None
import django
from django.core.management import get_commands, load_command_class

django.setup()
for name, application in get_commands().items():
    load_command_class(application, name)
from chronos_site import urls, wsgi
from jobs.registry import handlers

handlers()
"""
"""Blocks what only requirements-dev.txt names, then loads everything."""


def instruction(name: str) -> list[str]:
    """The arguments of all instructions of this name, in one line each."""
    joined = re.sub(r"\\\n\s*", " ", DOCKERFILE)
    return re.findall(rf"^{name} (.+)$", joined, re.MULTILINE)


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")

    result = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True)

    assert (result.returncode, result.stdout) == (0, "")


def test_both_stages_begin_at_the_same_pinned_version_of_python() -> None:
    bases = {base.split()[0] for base in instruction("FROM")}

    assert len(instruction("FROM")) == 2
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.13\.\d+-slim-trixie", bases.pop())


def test_nothing_in_the_image_can_install_packages(tmp_path: Path) -> None:
    """The last stage begins with a pip: that of the first one's environment is gone by itself."""
    python = tmp_path / "usr/local/lib/python3.13"
    installers = (
        *(tmp_path / "usr/local/bin/pip", tmp_path / "usr/local/bin/pip3.13"),
        *(python / "site-packages/pip/main.py", python / "site-packages/pip-26.1.dist-info/RECORD"),
        python / "ensurepip/_bundled/pip-26.1-py3-none-any.whl",
    )
    others = (python / "pipes.py", tmp_path / "usr/local/bin/python", tmp_path / "etc/pip.conf")
    for path in (*installers, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    last_stage = DOCKERFILE.rpartition("\nFROM ")[2]
    [command] = re.findall(r"^RUN find / (.+)$", re.sub(r"\\\n\s*", " ", last_stage), re.M)
    subprocess.run(["sh", "-euc", f"find {tmp_path} {command}"], check=True)

    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(others)


def test_ci_rehearses_the_image_with_the_unit_tests_on_its_python() -> None:
    lines = (ROOT / ".ci/run").read_text().splitlines()

    assert any(line.endswith("make rehearse ARGS=--unit-tests") for line in lines)


def test_the_role_is_process_1_and_gets_the_signal() -> None:
    assert [json.loads(each) for each in instruction("ENTRYPOINT")] == [["python", "manage.py"]]
    assert instruction("STOPSIGNAL") == ["SIGTERM"]
    assert instruction("USER") == ["10001:10001"]


def test_the_image_listens_and_is_labelled_as_the_project_says() -> None:
    variables = dict(each.split("=", 1) for each in instruction("ENV")[0].split())
    ours = {name: value for name, value in variables.items() if name in env.VARIABLES}
    config = config_from(env.read(ours))

    assert variables.keys() - ours.keys() == {"PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
    assert (config.listen.api_host, config.listen.metrics_host) == ("0.0.0.0", "0.0.0.0")  # noqa: S104
    assert instruction("EXPOSE") == [f"{config.listen.api_port} {config.listen.metrics_port}"]
    version = settings.SPECTACULAR_SETTINGS["VERSION"]
    assert f"VERSION={version}" in instruction("ARG")


def test_what_production_runs_goes_into_the_image_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line.removeprefix("!").rstrip("/") for line in lines if line.startswith("!")}
    applications = {name.partition(".")[0] for name in settings.INSTALLED_APPS}
    packages = {name for name in applications if (ROOT / name).is_dir()}

    assert "*" in lines
    assert allowed == packages | {
        *("manage.py", "requirements.txt", "constraints.txt", "templates"),
    }


def test_production_needs_nothing_that_only_development_installs() -> None:
    result = subprocess.run(
        [sys.executable, "-c", USE_WITHOUT_DEVELOPMENT],
        cwd=ROOT,
        env=env.for_child(DJANGO_SETTINGS_MODULE="chronos_site.settings"),
        capture_output=True,
        text=True,
    )

    assert result.returncode == 0, result.stderr


def check_health(*arguments: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """Status and words of the image's health check; `arguments` are added to it."""
    command = json.loads(instruction("HEALTHCHECK")[0].partition("CMD ")[2])
    assert command[0] == "python"
    result = subprocess.run(
        [sys.executable, *command[1:], *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    return result.returncode, result.stderr


def test_the_health_check_passes_while_the_role_lives(
    start_role: Callable[..., RoleProcess], role_env: dict[str, str]
) -> None:
    reaper = start_role("runreaper")
    reaper.wait_ready()
    environment = role_env | {"METRICS_PORT": str(reaper.metrics_port)}

    assert check_health(environment=environment) == (0, "")
    assert check_health("/readyz", environment=environment) == (0, "")
    everywhere = {"METRICS_HOST": "0.0.0.0"}  # noqa: S104
    assert check_health(environment=environment | everywhere) == (0, "")

    reaper.terminate()
    status, words = check_health(environment=environment)
    assert status == 1
    assert f"/healthz on port {reaper.metrics_port}" in words


def test_the_health_check_tells_why_a_role_is_not_ready(
    start_role: Callable[..., RoleProcess], role_env: dict[str, str]
) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    scheduler = start_role("runscheduler", KAFKA_BROKERS=nobody)
    scheduler.wait_for_line("starts, probes on port")
    environment = role_env | {"METRICS_PORT": str(scheduler.metrics_port)}

    assert check_health(environment=environment) == (0, "")
    status, words = check_health("/readyz", environment=environment)
    assert status == 1
    assert f"/readyz says 503: Kafka does not answer at {nobody}" in words
