"""The whole stack: three servers, then the roles, watched until somebody stops them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx
from django.conf import settings

from chronos_site import env
from chronos_site.values import asked_at
from devstack import process
from devstack.accounts import make_accounts
from devstack.etcd import Etcd
from devstack.kafka import Kafka
from devstack.mongo import Mongod
from devstack.process import DevstackError
from devstack.redis import Redis
from devstack.roles import Role, run_command
from devstack.server import Server, stop_all
from devstack.settings import development_settings
from devstack.terminal import Terminal

ROLES: Final = {
    "api": ("runapi",),
    "scheduler-1": ("runscheduler",),
    "scheduler-2": ("runscheduler",),
    "executor": ("runexecutor", "--type", "all"),
    "reaper": ("runreaper",),
}
FANOUT_WORKERS: Final = {"fanout-1": ("runfanout",), "fanout-2": ("runfanout",)}
READY_TIMEOUT: Final = timedelta(minutes=2)
STOP_MARGIN: Final = timedelta(seconds=10)
"""Time a role gets beyond DRAIN_TIMEOUT."""
_WATCH_SECONDS: Final = 0.2


def data_directory(values: Mapping[str, Any]) -> Path:
    """Where the servers keep everything; a relative DEVSTACK_DIR begins at the project."""
    directory: Path = settings.BASE_DIR / values["DEVSTACK_DIR"]
    return directory


def roles_to_start(values: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """The commands of all roles, by the names they have in the log."""
    return ROLES | (FANOUT_WORKERS if values["DISPATCH"] == "fanout" else {})


def servers_to_start(values: Mapping[str, Any], say: Callable[[str], None]) -> list[Server]:
    """The servers that run nowhere else yet, the slowest one first."""
    directory = data_directory(values)
    servers: list[Server] = [
        Kafka(
            directory / "kafka",
            values["DEVSTACK_KAFKA_PORT"],
            home=values["KAFKA_HOME"],
            java_home=values["JAVA_HOME"],
            say=say,
        ),
        Mongod(directory / "mongod", values["DEVSTACK_MONGO_PORT"], binary=values["MONGOD_BIN"]),
        _election_server(directory, values),
    ]
    return [server for server in servers if not env.is_set(server.address_variable)]


def _election_server(directory: Path, values: Mapping[str, Any]) -> Server:
    if values["LEADER_BACKEND"] == "redis":
        return Redis(directory / "redis", values["DEVSTACK_REDIS_PORT"], binary=values["REDIS_BIN"])
    return Etcd(directory / "etcd", values["DEVSTACK_ETCD_PORT"], binary=values["ETCD_BIN"])


class Stack:
    """Servers and roles as children of this process.

    Args:
        values: all variables, as `chronos_site.env.read` gives them.
    """

    def __init__(self, values: Mapping[str, Any], terminal: Terminal) -> None:
        self.servers = servers_to_start(values, terminal.say)
        self.roles: list[Role] = []
        self.passwords: Mapping[str, str] = {}
        self._values = values
        self._terminal = terminal
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="watcher")

    @property
    def exports(self) -> dict[str, str]:
        """The variables by which others find the servers that this stack started."""
        return {server.address_variable: server.location for server in self.servers}

    @property
    def api_url(self) -> str:
        return _url(self._values["API_HOST"], self._values["API_PORT"])

    def metrics_url(self, role: Role) -> str:
        return _url(self._values["METRICS_HOST"], role.metrics_port)

    def check(self, *, with_roles: bool) -> None:
        """Raise DevstackError when something cannot be started here: before anything is."""
        for server in self.servers:
            server.check()
        port = self._values["API_PORT"]
        if with_roles and not process.is_port_free(port):
            raise DevstackError(f"api: port {port} is in use. Set API_PORT to another port.")

    def start_servers(self) -> None:
        """Start the servers side by side and wait until each answers.

        Raises:
            DevstackError: one of them cannot be started. Those that were started still run.
        """
        began_at = time.monotonic()
        for server in self.servers:
            server.start()
            self._terminal.say(f"{server.name} starts on {server.address}, log in {server.log}")
        # The slowest one last, so that each is said to answer when it does.
        for server in reversed(self.servers):
            server.wait_ready()
            self._terminal.say(f"{server.name} answers ({time.monotonic() - began_at:.1f} s)")
        self._watcher.start()

    def start_roles(self) -> None:
        """Migrate, make users, start every role and wait until all of them are ready.

        Raises:
            DevstackError: a step failed.
        """
        environment = env.for_child(
            **self.exports,
            **development_settings(data_directory(self._values)),
            PYTHONUNBUFFERED="1",
        )
        self._migrate(environment)
        self.passwords = make_accounts(data_directory(self._values), environment)
        for number, (name, arguments) in enumerate(roles_to_start(self._values).items()):
            port = self._values["METRICS_PORT"] + number
            if not process.is_port_free(port):
                port = process.free_port()
            self.roles.append(Role(name, arguments, environment, port, self._terminal))
        self._wait_until_roles_are_ready()

    def stop(self) -> None:
        """End the roles in good order, then the servers. Nothing is left behind."""
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join()
        for role in self.roles:
            role.terminate()
        patience = self._values["DRAIN_TIMEOUT"] + STOP_MARGIN
        give_up_at = time.monotonic() + patience.total_seconds()
        for role in self.roles:
            role.stop(timedelta(seconds=max(0, give_up_at - time.monotonic())))
        stop_all(self.servers)

    def _migrate(self, environment: Mapping[str, str]) -> None:
        child = run_command(("migrate", "--no-color"), environment)
        try:
            self._terminal.show(child, "migrate").join()
            if child.wait() != 0:
                raise DevstackError("`manage.py migrate` failed: its output is above.")
        finally:
            process.kill(child)

    def _wait_until_roles_are_ready(self) -> None:
        give_up_at = time.monotonic() + READY_TIMEOUT.total_seconds()
        urls = {role.name: self.metrics_url(role) + "/readyz" for role in self.roles}
        while urls:
            for name, url in list(urls.items()):
                if _is_ok(url):
                    self._terminal.say("is ready", name)
                    del urls[name]
            if urls and time.monotonic() > give_up_at:
                seconds = READY_TIMEOUT.total_seconds()
                raise DevstackError(f"Not ready after {seconds:.0f} s: {', '.join(urls)}.")
            time.sleep(0.05)

    def _watch(self) -> None:
        """Start crashed roles again, and say so when a server ends."""
        living = list(self.servers)
        while not self._stopping.wait(_WATCH_SECONDS):
            for role in list(self.roles):
                role.tend()
            for server in [server for server in living if not server.is_alive]:
                self._terminal.say(
                    f"{server.obituary()}\nThe roles wait for it: stop devstack and start it again."
                )
                living.remove(server)


def _url(host: str, port: int) -> str:
    return f"http://{asked_at(host)}:{port}"


def _is_ok(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
