"""The manifests of Kubernetes: valid, shut in, and of one mind with the code."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import kubernetes_validate
import pytest
import yaml

from chronos_site import env
from jobs.delivery.config import DELIVERY_TYPES
from jobs.errors import ConfigError
from tests.deploy.custom_resources import check_custom_resource
from tests.deploy.manifests import LARGE, PROBES, ROOT, SECRETS, SMALL, TLS, Manifests
from tests.deploy.processes import check_probes
from tests.processes import MANAGE, RoleProcess
from tests.unit.test_docs import ROOT as PROJECT

BUILT_IN = frozenset({"noop", "log-message", "flaky", "slow"})
# The oldest that has all that is used (a sleep before the end), and the newest of the schemas.
VERSIONS = ("1.30", "1.37")
AFTER_DRAIN = timedelta(seconds=20)
"""What an executor takes beside DRAIN_TIMEOUT: docs/operations.md."""
ANSWER_OF_READYZ = 4
"""Seconds, at most: docs/operations.md."""
SLOWEST_START = timedelta(seconds=60)
"""What a role is given before the first answer of /healthz: as long as Compose gives it."""
LONGEST_SILENCE = timedelta(seconds=30)
"""A busy process may be silent for so long without being dead."""


@pytest.fixture(scope="module", params=[SMALL, LARGE], ids=["small", "large"])
def manifests(request: pytest.FixtureRequest) -> Manifests:
    return Manifests(request.param)


@pytest.fixture(scope="module")
def large() -> Manifests:
    return Manifests(LARGE)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_document_is_what_the_api_server_takes(manifests: Manifests, version: str) -> None:
    for document in manifests.documents:
        if not check_custom_resource(document):
            kubernetes_validate.validate(document, version, strict=True)


def test_no_two_documents_have_the_same_name(manifests: Manifests) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests.documents]

    assert len(set(names)) == len(names)
    elsewhere = [n for n in manifests.documents if n["metadata"].get("namespace") != "chronos"]
    assert [(each["kind"], each["metadata"]["name"]) for each in elsewhere] == [
        ("Namespace", "chronos")
    ]


def test_every_role_is_there(manifests: Manifests, large: Manifests) -> None:
    roles = {each.role for each in manifests.workloads}

    fanout = {"fanout"} if manifests.documents == large.documents else set()
    assert roles == {"api", "scheduler", "executor", "reaper", "migrate"} | fanout


def test_chronos_accepts_every_command_and_variable_and_listens_where_it_is_asked(
    manifests: Manifests,
) -> None:
    for each in manifests.workloads:
        each.process.check()


def test_every_job_type_is_served_and_by_one_group_only(manifests: Manifests) -> None:
    served = Counter(job_type for each in manifests.executors for job_type in each.job_types)

    assert served.keys() >= DELIVERY_TYPES | BUILT_IN
    assert set(served.values()) == {1}


def test_every_role_is_asked_whether_it_lives_and_whether_it_can_work(manifests: Manifests) -> None:
    for each in manifests.deployments:
        paths = {kind: each.container[f"{kind}Probe"]["httpGet"]["path"] for kind in PROBES}
        assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
        assert each.container["readinessProbe"]["timeoutSeconds"] > ANSWER_OF_READYZ


def test_who_starts_slowly_or_is_busy_is_not_killed(manifests: Manifests) -> None:
    for each in manifests.deployments:
        probes = {kind: each.container[f"{kind}Probe"] for kind in PROBES}
        assert min(probe["timeoutSeconds"] for probe in probes.values()) >= 5, each.name
        patience = {
            kind: timedelta(seconds=probe["periodSeconds"] * probe["failureThreshold"])
            for kind, probe in probes.items()
        }
        assert patience["startup"] >= SLOWEST_START, each.name
        assert patience["liveness"] >= LONGEST_SILENCE, each.name
        # Nobody is sent to a process that cannot work for longer than that.
        assert patience["readiness"] <= LONGEST_SILENCE, each.name


@pytest.mark.usefixtures("provisioned")
def test_every_probe_is_answered_by_the_real_role(
    large: Manifests, start_role: Callable[..., RoleProcess]
) -> None:
    by_role = {each.role: each.process for each in large.deployments}

    check_probes(list(by_role.values()), start_role)


def test_whoever_drains_is_given_the_time(manifests: Manifests) -> None:
    for each in manifests.deployments:
        sleep = each.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {})
        needed = each.drain_timeout + AFTER_DRAIN + timedelta(seconds=sleep.get("seconds", 0))
        assert timedelta(seconds=each.pod["terminationGracePeriodSeconds"]) > needed, each.name


def test_every_pod_is_shut_in(manifests: Manifests) -> None:
    for each in manifests.workloads:
        pod, container = each.pod, each.container
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["automountServiceAccountToken"] is False
        assert "/tmp" in {at["mountPath"] for at in container["volumeMounts"]}  # noqa: S108 (its name)
        for name in ("hostNetwork", "hostPID", "hostIPC"):
            assert name not in pod


def test_the_namespace_takes_no_pod_that_is_not_shut_in(manifests: Manifests) -> None:
    [namespace] = manifests.of("Namespace")
    [account] = manifests.of("ServiceAccount")

    assert namespace["metadata"]["labels"] == {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }
    assert account["automountServiceAccountToken"] is False
    assert {each.pod["serviceAccountName"] for each in manifests.workloads} == {
        account["metadata"]["name"]
    }


def test_each_role_gets_the_secrets_that_it_needs_and_no_others(manifests: Manifests) -> None:
    """Handlers are a team's own code: an executor of theirs knows no key of the others."""
    for each in manifests.workloads:
        needed = {"chronos"} | {
            "api": {"chronos-api", "chronos-deliveries"},
            "scheduler": {"chronos-etcd"},
        }.get(each.role, set())
        if each.job_types & DELIVERY_TYPES:
            needed |= {"chronos-deliveries"}
        assert each.secrets == needed, each.name


def test_migrate_waits_for_kafka(manifests: Manifests) -> None:
    [job] = [each for each in manifests.workloads if each.role == "migrate"]

    assert job.process.parse_arguments().require_topics


def test_no_service_can_be_taken_for_a_setting(manifests: Manifests) -> None:
    """A Service `api` makes a variable API_PORT in every pod, with an address as its value."""
    assert "api" in {each["metadata"]["name"] for each in manifests.of("Service")}

    assert all(each.pod["enableServiceLinks"] is False for each in manifests.workloads)


def test_images_are_pinned_to_this_version(manifests: Manifests) -> None:
    version = re.search(r'^version = "(.+)"$', (PROJECT / "pyproject.toml").read_text(), re.M)
    assert version

    assert {each.container["image"] for each in manifests.workloads} == {f"chronos:{version[1]}"}
    assert [each["metadata"]["name"] for each in manifests.of("Job")] == [
        f"migrate-{version[1].replace('.', '-')}"
    ]


def test_what_every_container_needs_is_said(manifests: Manifests) -> None:
    for each in manifests.workloads:
        resources = each.container["resources"]
        assert resources["requests"].keys() == {"cpu", "memory"}, each.name
        assert resources["limits"].keys() == {"memory"}, each.name


def test_selectors_match_the_pods_of_their_own_deployment_only(manifests: Manifests) -> None:
    for each in manifests.deployments:
        selector = each.document["spec"]["selector"]["matchLabels"]
        assert [found.name for found in manifests.selected(selector)] == [each.name]
        spreads = each.pod["topologySpreadConstraints"]
        assert [spread["topologyKey"] for spread in spreads] == [
            *("topology.kubernetes.io/zone", "kubernetes.io/hostname")
        ]
        for spread in spreads:
            assert spread["labelSelector"]["matchLabels"].items() <= each.labels.items()


def test_services_lead_to_ports_that_are_there(manifests: Manifests) -> None:
    behind = {}
    for service in manifests.of("Service"):
        spec = service["spec"]
        found = list(manifests.selected(spec["selector"]))
        behind[service["metadata"]["name"]] = {each.role for each in found}
        for port in spec["ports"]:
            assert all(port["targetPort"] in each.ports for each in found)

    roles = {each.role for each in manifests.deployments}
    assert behind == {"api": {"api"}, "metrics": roles}


def test_an_eviction_leaves_somebody_of_each_role(manifests: Manifests) -> None:
    guarded = []
    for budget in manifests.of("PodDisruptionBudget"):
        [found] = manifests.selected(budget["spec"]["selector"]["matchLabels"])
        guarded.append(found.name)
        most = budget["spec"]["maxUnavailable"]
        # Of those that KEDA scales two are the fewest of which one may be missed.
        replicas = found.replicas or 2
        if isinstance(most, str):
            most = math.ceil(replicas * int(most.removesuffix("%")) / 100)
        assert 0 < most < replicas, found.name

    assert sorted(guarded) == sorted(each.name for each in manifests.deployments)


def test_a_changed_setting_starts_the_roles_anew_and_leaves_the_job_alone(
    manifests: Manifests,
) -> None:
    """A Job that has run cannot be changed: applying it again must not try."""
    for each in manifests.workloads:
        [name] = [
            source["configMapRef"]["name"]
            for source in each.container["envFrom"]
            if "configMapRef" in source
        ]
        is_job = each.role == "migrate"
        assert name == "migrate" if is_job else re.fullmatch(r"settings-[a-z0-9]{10}", name)
    settings = [
        config["data"]
        for config in manifests.of("ConfigMap")
        if config["metadata"]["name"].startswith(("settings-", "migrate"))
    ]
    assert len(settings) == 2
    assert settings[0] == settings[1]


def test_no_secret_is_in_the_manifests_and_the_example_starts_nothing(manifests: Manifests) -> None:
    assert manifests.of("Secret") == []
    for settings in manifests.of("ConfigMap"):
        assert not settings["data"].keys() & env.SECRETS
    examples = {
        each["metadata"]["name"]: each["stringData"]
        for each in yaml.safe_load_all((ROOT / "secret.example.yaml").read_text())
    }
    assert examples.pop("chronos-tls").keys() == {path.name for path in TLS.iterdir()}
    assert {name: values.keys() for name, values in examples.items()} == {
        name: values.keys() for name, values in SECRETS.items()
    }

    example = {key: value for values in examples.values() for key, value in values.items()}
    for name in ("MONGO_URI", "ENCRYPTION_KEYS"):
        with pytest.raises(ConfigError, match=name):
            env.read({name: example[name]})
    assert len(example["SECRET_KEY"]) < 50


def test_the_check_of_a_deployment_has_nothing_to_say(manifests: Manifests) -> None:
    [api] = [each for each in manifests.deployments if each.role == "api"]

    done = subprocess.run(
        [sys.executable, str(MANAGE), "check", "--deploy", "--fail-level", "WARNING"],
        env={**api.environment, "PATH": os.environ["PATH"]},
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr


def test_etcd_is_told_who_asks_though_the_api_cannot_say_it(manifests: Manifests) -> None:
    """The check above is silent about it: E013."""
    for each in manifests.deployments:
        security = each.process.configure().election.security
        assert security.ca is not None
        assert (security.username is not None) == (each.role == "scheduler"), each.name
