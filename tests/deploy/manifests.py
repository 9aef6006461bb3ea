"""The manifests of Kubernetes as kustomize makes them, and the pods that they describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

from jobs.registry import known_types
from tests.deploy.processes import Probe, Process
from tools import kustomize

ROOT: Final = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
SMALL: Final = ROOT / "overlays" / "small"
LARGE: Final = ROOT / "overlays" / "large"
SECRETS: Final = {
    "chronos": {
        "MONGO_URI": "mongodb://chronos:correct-horse@mongo.servers.svc/?replicaSet=rs0&authSource=admin"
        "&tls=true&tlsCAFile=/etc/chronos/tls/ca.pem",
        "KAFKA_SASL_PASSWORD": "correct-horse",
    },
    "chronos-etcd": {"ETCD_USERNAME": "chronos", "ETCD_PASSWORD": "correct-horse"},
    "chronos-api": {"SECRET_KEY": "For-tests-only,-but-of-many-different-characters-0123456789"},
    "chronos-deliveries": {"ENCRYPTION_KEYS": "Zm9yIHRlc3RzIG9ubHksIDMyIGJ5dGVzIG9mIHRleHQ="},
}
"""Examples of what is kept outside of the manifests, by the Secret's name."""
TLS: Final = Path(__file__).parent / "tls"
"""Stands in for the Secret `chronos-tls`."""

PROBES: Final = ("startup", "liveness", "readiness")

Document = dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """A Deployment or a Job: pods, each with one container."""

    document: Document
    environment: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"{self.document['kind']} {self.document['metadata']['name']}"

    @property
    def replicas(self) -> int | None:
        """None: somebody else says how many."""
        replicas: int | None = self.document["spec"].get("replicas")
        return replicas

    @property
    def labels(self) -> Mapping[str, str]:
        """Of its pods."""
        labels: Mapping[str, str] = self.document["spec"]["template"]["metadata"]["labels"]
        return labels

    @property
    def pod(self) -> Document:
        pod: Document = self.document["spec"]["template"]["spec"]
        return pod

    @property
    def container(self) -> Document:
        [container] = self.pod["containers"]
        return dict(container)

    @property
    def role(self) -> str:
        return self.labels["app.kubernetes.io/component"]

    @property
    def ports(self) -> Mapping[str, int]:
        """Of the container, by name."""
        return {port["name"]: port["containerPort"] for port in self.container.get("ports", ())}

    @property
    def secrets(self) -> frozenset[str]:
        """Names of the Secrets of which it reads variables."""
        sources = [each.get("secretRef") for each in self.container["envFrom"]]
        return frozenset(source["name"] for source in sources if source)

    @cached_property
    def process(self) -> Process:
        asked = [self.container.get(f"{kind}Probe") for kind in PROBES]
        probes = [probe["httpGet"] for probe in asked if probe]
        return Process(
            self.name,
            self.container["args"],
            self.environment,
            frozenset(self.ports.values()),
            tuple(Probe(probe["path"], self.ports[probe["port"]]) for probe in probes),
        )

    @property
    def drain_timeout(self) -> timedelta:
        return self.process.configure().executor.drain_timeout

    @property
    def job_types(self) -> frozenset[str]:
        """What an executor serves."""
        if self.process.command != "runexecutor":
            return frozenset()
        named = frozenset(self.process.parse_arguments().type.split(","))
        return known_types() if named == {"all"} else named


class Manifests:
    """Everything that a kustomization applies."""

    def __init__(self, directory: Path) -> None:
        self.documents: Sequence[Document] = [*yaml.safe_load_all(kustomize.build(directory))]

    def of(self, *kinds: str) -> list[Document]:
        """The documents of some kinds."""
        return [document for document in self.documents if document["kind"] in kinds]

    @cached_property
    def workloads(self) -> list[Workload]:
        return [
            Workload(document, self._environment(document))
            for document in self.of("Deployment", "Job")
        ]

    @property
    def deployments(self) -> list[Workload]:
        return [each for each in self.workloads if each.document["kind"] == "Deployment"]

    @property
    def executors(self) -> list[Workload]:
        return [each for each in self.workloads if each.role == "executor"]

    def selected(self, selector: Mapping[str, str]) -> Iterator[Workload]:
        """Whose pods have these labels."""
        return (each for each in self.workloads if selector.items() <= each.labels.items())

    def _environment(self, document: Document) -> Mapping[str, str]:
        [container] = document["spec"]["template"]["spec"]["containers"]
        values: dict[str, str] = {}
        for source in container["envFrom"]:
            if reference := source.get("configMapRef"):
                [found] = [m for m in self.of("ConfigMap") if _name(m) == reference["name"]]
                values |= found["data"]
            else:
                values |= SECRETS[source["secretRef"]["name"]]
        values |= {each["name"]: each["value"] for each in container.get("env", ())}
        [folder] = [at["mountPath"] for at in container["volumeMounts"] if at["name"] == "tls"]
        return {name: value.replace(folder, str(TLS)) for name, value in values.items()}


def _name(document: Document) -> str:
    return str(document["metadata"]["name"])
