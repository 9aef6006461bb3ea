"""A mongod and an API process of one's own, filled with a scene: for the tools about pages."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx
from cryptography.fernet import Fernet
from django.conf import settings

from chronos_site import env
from chronos_site.config import StoreConfig
from devstack import process
from devstack.mongo import Mongod
from jobs.delivery.secrets import Secrets
from jobs.registry import known_types
from jobs.repository import Repository
from jobs.services import Services
from tools.scene import TENANTS, Scene, fill, report_nodes

USER: Final = "demo-admin"
PASSWORD: Final = "correct horse battery"  # noqa: S105 (of a server that lives for a minute)
MEMBER: Final = "demo-tenant-admin"
_ACCOUNTS: Final = {
    USER: "--superuser",
    MEMBER: f"--member={TENANTS[0]}:admin",
    "demo-operator": f"--member={TENANTS[0]}:operator",
    "demo-viewer": f"--member={TENANTS[0]}:viewer",
}
_TIMEOUT_SECONDS: Final = 60
_BEAT_SECONDS: Final = 1


@dataclass(frozen=True, slots=True)
class AdminServer:
    """It runs."""

    url: str
    scene: Scene


@contextmanager
def admin_server(*, jobs: int, templates: int) -> Iterator[AdminServer]:
    """Serve the admin on a store with so many made-up jobs and templates."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        mongod = Mongod(directory / "mongod", binary=settings.ENV["MONGOD_BIN"])
        mongod.start()
        try:
            mongod.wait_ready()
            port = process.free_port()
            key = Fernet.generate_key().decode()
            environment = env.for_child(
                DJANGO_SETTINGS_MODULE="chronos_site.settings",
                MONGO_URI=mongod.location,
                ENCRYPTION_KEYS=key,
                API_PORT=str(port),
                METRICS_PORT=str(process.free_port()),
                KAFKA_BROKERS="127.0.0.1:1",
                LOG_FORMAT="text",
                LOG_LEVEL="WARNING",
            )
            _manage("migrate", "--verbosity", "0", environment=environment)
            for name, right in _ACCOUNTS.items():
                account = ("account", name, right, "--password-stdin")
                _manage(*account, environment=environment, stdin=PASSWORD)
            with closing(Repository.connect(StoreConfig(mongod.location, "chronos"))) as repository:
                services = Services(repository, known_types(), Secrets([key]))
                scene = fill(services, jobs=jobs, templates=templates)
                api = process.spawn(
                    _command("runapi"), output=sys.stderr.fileno(), environment=environment
                )
                try:
                    url = f"http://127.0.0.1:{port}"
                    _wait_for(url)
                    with _signs_of_life(repository):
                        yield AdminServer(url, scene)
                finally:
                    process.kill(api)
        finally:
            mongod.kill()


@contextmanager
def _signs_of_life(repository: Repository) -> Iterator[None]:
    """Let the processes of the scene look alive for as long as somebody looks."""
    over = threading.Event()
    since = repository.clock.now()

    def go_on() -> None:
        while not over.is_set():
            report_nodes(repository, since=since)
            over.wait(_BEAT_SECONDS)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _command(*arguments: str) -> list[str]:
    return [sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments]


def _manage(*arguments: str, environment: dict[str, str], stdin: str = "") -> None:
    subprocess.run(  # noqa: S603 (our own command)
        _command(*arguments),
        env=environment,
        input=stdin,
        text=True,
        check=True,
        stderr=subprocess.DEVNULL if arguments[0] == "migrate" else None,
    )


def _wait_for(url: str) -> None:
    give_up_at = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < give_up_at:
        try:
            httpx.get(f"{url}/healthz", trust_env=False).raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the API did not answer in time")


def prepare_django() -> None:
    """What `manage.py` does before a command."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronos_site.settings")
    django.setup()
    logging.getLogger("httpx").setLevel(logging.WARNING)
