"""A real Prometheus over the roles of a test, with the rules of `deploy/prometheus` in a hurry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from devstack.prometheus import Prometheus
from tests.processes import RoleProcess
from tools import debian

DEPLOYED: Final = Path(__file__).resolve().parent.parent / "deploy/prometheus"
ROLES: Final = {
    "runapi": "api",
    "runscheduler": "scheduler",
    "runfanout": "fanout",
    "runexecutor": "executor",
    "runreaper": "reaper",
}
"""The label `role` of a command's processes."""
HURRY: Final = 60
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}


class Watcher(Prometheus):
    """A Prometheus that looks every second.

    What an alert waits for, `for`, is a sixtieth: a minute is a second. The ranges of expressions
    stay as they are.

    Args:
        directory: as for all servers.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._targets = directory / "targets.json"
        self.scrape([])
        config = read(DEPLOYED / "prometheus.yml")
        config["global"] = dict.fromkeys(config["global"], "1s")
        config["rule_files"] = [
            str(_in_a_hurry(path, directory)) for path in sorted(DEPLOYED.glob("rules/*.yml"))
        ]
        [chronos] = config["scrape_configs"]
        del chronos["dns_sd_configs"], chronos["relabel_configs"]
        chronos["file_sd_configs"] = [{"files": [str(self._targets)], "refresh_interval": "1s"}]
        file = directory / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        super().__init__(directory, config=file, binary=debian.find("prometheus"))

    def scrape(self, roles: Iterable[RoleProcess]) -> None:
        """Look at these from now on, and at no others."""
        groups = [
            {
                "targets": [f"127.0.0.1:{role.metrics_port}"],
                "labels": {"role": ROLES[role.arguments[0]]},
            }
            for role in roles
        ]
        written = self._targets.with_suffix(".new")
        written.write_text(json.dumps(groups))
        written.rename(self._targets)


def read(path: Path) -> Any:
    """A YAML file."""
    return yaml.safe_load(path.read_text())


def seconds(duration: str) -> int:
    """A duration as Prometheus writes it: `1m30s`."""
    return sum(int(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+)([smh])", duration))


def _in_a_hurry(path: Path, directory: Path) -> Path:
    rules = read(path)
    for group in rules["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = f"{max(1, seconds(rule['for']) // HURRY)}s"
    copy = directory / path.name
    copy.write_text(yaml.safe_dump(rules))
    return copy
