"""Prometheus' rules as its operator takes them: `python -m tools.prometheus_rule` writes them.

Kustomize can neither reach the files in deploy/prometheus/rules nor put them into a resource. A
test compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

_DEPLOY: Final = Path(__file__).resolve().parent.parent / "deploy"
RULES: Final = _DEPLOY / "prometheus" / "rules"
RESOURCE: Final = _DEPLOY / "kubernetes" / "monitoring" / "rules.yaml"
_HEAD: Final = "# Made of deploy/prometheus/rules by `python -m tools.prometheus_rule`.\n"


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def resource() -> str:
    """The manifest, with all groups of all files."""
    groups: list[Any] = []
    for path in sorted(RULES.glob("*.yml")):
        groups += yaml.safe_load(path.read_text())["groups"]
    document = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "chronos"},
        "spec": {"groups": groups},
    }
    return _HEAD + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100)


def main() -> None:
    RESOURCE.write_text(resource())


if __name__ == "__main__":
    main()
