"""A process as a manifest describes it, and whether Chronos agrees."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.core.management import CommandError, get_commands, load_command_class

from chronos_site import env
from chronos_site.config import Config, config_from
from jobs.errors import ConfigError
from jobs.registry import known_types
from tests.processes import RoleProcess
from tests.waiting import wait_for

PROBE_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
ALL_INTERFACES: Final = "0.0.0.0"  # noqa: S104 (inside a container)
_OF_THE_INSTALLATION: Final = (
    *("MONGO_", "KAFKA_BROKERS", "KAFKA_SECURITY", "KAFKA_SASL", "KAFKA_SSL", "ETCD_", "REDIS_"),
    *("TRACING_ENDPOINT", "API_", "METRICS_"),
)
"""How the names of variables begin that say where others are, or where to listen."""


@dataclass(frozen=True)
class Probe:
    """A request by which a supervisor finds out how a process is."""

    path: str
    port: int


@dataclass(frozen=True)
class Process:
    """One `manage.py` command with its surroundings.

    Args:
        where: the file and the entry, for messages.
        arguments: of manage.py: the command's name and its arguments.
        environment: what the manifest sets, secrets and references filled in by examples.
        ports: those that the manifest says it listens on.
        probes: what the supervisor asks.
    """

    where: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    ports: frozenset[int] = frozenset()
    probes: tuple[Probe, ...] = ()

    @property
    def command(self) -> str:
        return self.arguments[0]

    @property
    def is_role(self) -> bool:
        """Whether it runs until it is stopped, and answers probes."""
        return self.command.startswith("run")

    def parse_arguments(self) -> Namespace:
        """What the command reads out of its arguments; fails when it would refuse them."""
        commands = get_commands()
        assert self.command in commands, f"{self.where}: no management command {self.command!r}"
        command = load_command_class(str(commands[self.command]), self.command)
        try:
            options = command.create_parser("manage.py", self.command).parse_args(
                list(self.arguments[1:])
            )
        except CommandError as exc:
            raise AssertionError(f"{self.where}: {self.command}: {exc}") from exc
        if self.command == "runexecutor" and options.type is not None:
            unknown = set(options.type.split(",")) - known_types() - {"all"}
            assert not unknown, f"{self.where}: no handler for {unknown}"
        return options

    def configure(self) -> Config:
        """The configuration that its environment makes; fails when Chronos would refuse it."""
        unknown = self.environment.keys() - env.VARIABLES.keys()
        assert not unknown, f"{self.where}: Chronos reads no variable {', '.join(sorted(unknown))}"
        empty = sorted(name for name, value in self.environment.items() if not value)
        assert not empty, f"{self.where}: {', '.join(empty)} has no value"
        try:
            return config_from(env.read(self.environment))
        except ConfigError as exc:
            raise AssertionError(f"{self.where}: {exc}") from exc

    def check_ports(self) -> None:
        """Fail unless ports and probes are those that the process listens on, on all interfaces."""
        listen = self.configure().listen
        expected = set()
        if self.is_role:
            expected.add(listen.metrics_port)
            assert listen.metrics_host == ALL_INTERFACES, f"{self.where}: METRICS_HOST"
        if self.command == "runapi":
            expected.add(listen.api_port)
            assert listen.api_host == ALL_INTERFACES, f"{self.where}: API_HOST"
        assert self.ports == expected, f"{self.where}: it listens on {sorted(expected)}"
        for probe in self.probes:
            assert probe.port == listen.metrics_port, f"{self.where}: {probe}"
            assert probe.path in PROBE_PATHS, f"{self.where}: {probe}"

    def check(self) -> None:
        """Fail unless Chronos accepts all that can be judged without running it."""
        self.parse_arguments()
        self.check_ports()

    def start(self, start_role: Callable[..., RoleProcess]) -> RoleProcess:
        """Run it on the servers of the tests, everything else as the manifest says.

        Args:
            start_role: the fixture of this name.
        """
        variables = {
            name: value
            for name, value in self.environment.items()
            if not name.startswith(_OF_THE_INSTALLATION)
        }
        return start_role(*self.arguments, **variables)


def check_probes(processes: Sequence[Process], start_role: Callable[..., RoleProcess]) -> None:
    """Fail unless every probe of every process answers 200, all of them running side by side.

    The topics must exist: see the fixture `provisioned`.
    """
    for process, role in [(process, process.start(start_role)) for process in processes]:
        for probe in process.probes:
            _wait_for_answer(process, role, probe)


def _wait_for_answer(process: Process, role: RoleProcess, probe: Probe) -> None:
    def has_answered() -> bool:
        assert role.is_alive, f"{process.where}: {role} ended:\n{role.output}"
        return role.get(probe.path)[0] == 200

    wait_for(has_answered, show=lambda: f"{process.where}: {probe} has no answer:\n{role.output}")
