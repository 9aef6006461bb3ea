"""docker-compose.yml says what Compose, Chronos and Prometheus understand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml
from django.core.management import get_commands

from chronos_site import env
from chronos_site.values import parse_duration
from devstack.jars import JARS
from jobs import deployment, registry
from jobs.delivery.config import DELIVERY_TYPES
from tests.deploy.compose import (
    FILE,
    IMAGE,
    ROOT,
    example_settings,
    load,
    processes,
    referred_names,
    required_names,
    settings_of,
)
from tests.deploy.processes import check_probes
from tests.processes import RoleProcess

GUIDE: Final = ROOT / "deploy/README.md"
LEADER: Final = load(settings_of())
FANOUT: Final = load(settings_of(DISPATCH="fanout"))
SERVICES: Final = LEADER["services"]
SECRETS: Final = frozenset(
    ("SECRET_KEY", "ENCRYPTION_KEYS", "GRAFANA_PASSWORD", "REDIS_PASSWORD")
) | frozenset(("MONGO_PASSWORD", "MONGO_ROOT_PASSWORD"))


def test_the_file_follows_the_specification_of_compose() -> None:
    schemas = files("check_jsonschema.builtin_schemas.vendor")

    jsonschema.validate(
        yaml.safe_load(FILE.read_text()), json.loads((schemas / "compose-spec.json").read_text())
    )


@pytest.mark.parametrize("name", processes(LEADER))
def test_chronos_accepts_each_process(name: str) -> None:
    processes(LEADER)[name].check()
    processes(FANOUT)[name].check()


def test_every_probe_of_every_role_is_answered(
    provisioned: None, start_role: Callable[..., RoleProcess]
) -> None:
    by_role = {each.command: each for each in processes(FANOUT).values() if each.is_role}

    check_probes(list(by_role.values()), start_role)


def test_every_role_is_there_and_probed_and_all_job_types_are_served() -> None:
    roles = [process for process in processes(LEADER).values() if process.is_role]
    served = [
        each
        for process in roles
        if process.command == "runexecutor"
        for each in process.parse_arguments().type.split(",")
    ]

    assert {process.command for process in roles} == {
        *("runapi", "runscheduler", "runfanout", "runexecutor", "runreaper")
    }
    assert [process.command for process in roles].count("runscheduler") == 2
    assert all(process.probes for process in roles)
    assert sorted(served) == sorted({*built_in_handlers(), *DELIVERY_TYPES})


def test_each_job_type_has_an_executor_of_its_own_which_is_scaled_by_itself() -> None:
    for name, process in processes(LEADER).items():
        if process.command == "runexecutor":
            assert name == f"executor-{process.parse_arguments().type}"


def test_each_role_gets_the_secrets_that_it_needs_and_no_others() -> None:
    """Handlers are a team's own code: an executor of theirs knows no key of the others."""
    for name, process in processes(LEADER).items():
        needed = {"MONGO_URI"} | {
            "runapi": {"SECRET_KEY", "ENCRYPTION_KEYS"},
            "runscheduler": {"REDIS_URL"},
        }.get(process.command, set())
        if name in {f"executor-{job_type}" for job_type in DELIVERY_TYPES}:
            needed |= {"ENCRYPTION_KEYS"}
        assert process.environment.keys() & env.SECRETS == needed, name


def built_in_handlers() -> set[str]:
    """Without those of the tests."""
    return {
        name
        for name, handler in registry.handlers().items()
        if handler.function.__module__.startswith("executor.")
    }


def test_what_runs_chronos_waits_for_migrate_and_migrate_for_the_servers() -> None:
    for name in processes(LEADER):
        conditions = {
            other: each["condition"] for other, each in SERVICES[name]["depends_on"].items()
        }
        if name == "migrate":
            assert conditions == {
                "mongo-initiate": "service_completed_successfully",
                "kafka": "service_healthy",
                "etcd": "service_healthy",
            }
        elif name == "loadtest":
            assert set(conditions.values()) == {"service_healthy"}
        else:
            assert conditions["migrate"] == "service_completed_successfully"


@pytest.mark.parametrize("profile", [None, "fanout", "redis", "loadtest"])
def test_what_a_profile_starts_needs_nothing_outside_of_it(profile: str | None) -> None:
    started = {
        name: service
        for name, service in SERVICES.items()
        if not service.get("profiles") or profile in service["profiles"]
    }

    for name, service in started.items():
        for other, condition in service.get("depends_on", {}).items():
            assert other in started or condition.get("required") is False, f"{name}: {other}"
            if condition["condition"] == "service_healthy":
                assert not SERVICES[other]["healthcheck"].get("disable"), f"{name}: {other}"
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            is_there = (ROOT / source).exists() if "/" in source else source in LEADER["volumes"]
            assert is_there, f"{name}: {source}"
        assert set(service["networks"]) <= LEADER["networks"].keys()


def test_servers_answer_where_chronos_looks_for_them() -> None:
    values = env.read(processes(LEADER)["scheduler-1"].environment)
    kafka = SERVICES["kafka"]["environment"]

    assert "@mongo:27017/" in values["MONGO_URI"]
    assert "replicaSet=rs0" in values["MONGO_URI"]
    assert "rs0" in SERVICES["mongo"]["command"]
    assert values["MONGO_DB"] == SERVICES["mongo-initiate"]["environment"]["MONGO_DB"]
    assert f"authSource={values['MONGO_DB']}" in values["MONGO_URI"]
    assert kafka["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{values['KAFKA_BROKERS'][0]}"
    assert (
        f"--advertise-client-urls=http://{values['ETCD_ENDPOINTS'][0]}"
        in (SERVICES["etcd"]["command"])
    )
    assert values["REDIS_URL"].endswith("@redis:6379/0")


def test_topics_are_made_by_migrate_with_as_many_partitions_as_were_asked_for() -> None:
    many = processes(load(settings_of(KAFKA_PARTITIONS="12")))

    assert many["migrate"].configure().broker.partitions == 12
    assert many["migrate"].configure().broker.replication == 1
    assert SERVICES["kafka"]["environment"]["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


def test_versions_are_pinned_and_the_image_has_the_version_of_the_project() -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)

    assert version is not None
    assert f"chronos:{version[1]}" == IMAGE
    for name, service in SERVICES.items():
        tag = service["image"].rpartition(":")[2]
        assert re.match(r"v?\d+\.\d+\.\d+", tag), f"{name}: {service['image']}"


def test_the_guide_says_what_the_tests_ran_on() -> None:
    text = GUIDE.read_text()
    tested = dict(re.findall(r"^\| `([a-z/.]+):[^`]+` \| ([^|]+) \|", text, re.MULTILINE))
    requirements = (ROOT / "requirements-dev.txt").read_text()

    assert tested.keys() == {
        service["image"].rpartition(":")[0] for service in SERVICES.values()
    } - {"chronos"}
    assert f"kafka_2.13:{tested['apache/kafka'].removeprefix('Kafka ')}+" in JARS
    for image in ("mongo", "quay.io/coreos/etcd", "redis"):
        program_and_version = re.match(r"[a-z-]+ [0-9.]+", tested[image])
        assert program_and_version, tested[image]
        assert program_and_version[0] in requirements


def test_env_example_has_every_variable_and_no_other() -> None:
    # Compose itself reads the profiles.
    assert example_settings().keys() == referred_names() | {"COMPOSE_PROFILES"}


def test_what_operators_tune_has_the_defaults_of_chronos_and_is_passed_on() -> None:
    tuned = {
        "BULK_RATE": "100",
        "CLAIM_TIMEOUT": "2m",
        "LEADER_TTL": "5s",
        "LOG_LEVEL": "DEBUG",
        "QUEUED_TIMEOUT": "1m",
        "RETENTION_LOGS": "24h",
        "TRACING_ENDPOINT": "http://jaeger:4318/v1/traces",
        "TRACING_SAMPLE": "0.1",
    }
    changed = load(settings_of(**tuned))

    for name, process in processes(LEADER).items():
        assert {each: process.environment.get(each) for each in tuned} == {
            each: env.VARIABLES[each].default for each in tuned
        }
        assert tuned.items() <= processes(changed)[name].environment.items()
        processes(changed)[name].check()


def test_secrets_have_no_values_before_a_person_gives_them() -> None:
    assert required_names() - {"ALLOWED_HOSTS"} == SECRETS
    assert {name for name in SECRETS if example_settings()[name]} == set()
    for name in SECRETS:
        with pytest.raises(AssertionError, match=f"{name} is required"):
            load(settings_of(**{name: ""}))


def test_a_deployment_by_it_passes_the_checks_once_it_has_https() -> None:
    assert findings(LEADER) == {"chronos.E006"}
    assert findings(load(settings_of(HTTPS="true"))) == set()
    guessable = {"SECRET_KEY": "changeme"}
    assert "chronos.E003" in findings(load(settings_of(**guessable)))


def test_the_commands_of_the_guide_make_an_env_file_that_is_complete(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    shutil.copy(ROOT / "deploy/.env.example", tmp_path / "deploy")
    until_docker = blocks_of_the_guide()[0].partition("docker compose")[0]

    subprocess.run(["bash", "-euc", until_docker], cwd=tmp_path, check=True)

    lines = (tmp_path / ".env").read_text().splitlines()
    document = load(dict(line.split("=", 1) for line in lines if line and line[0] != "#"))
    assert findings(document) == {"chronos.E006"}
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0


def test_the_guide_names_services_and_commands_that_exist() -> None:
    text = GUIDE.read_text()
    services = re.findall(r"docker compose (?:exec|run --rm|logs) ([a-z0-9-]+)", text)
    services += re.findall(r"--scale ([a-z0-9-]+)=", text)
    commands = re.findall(r"python manage\.py (\w+)", text)

    assert set(services) <= SERVICES.keys()
    assert {"api", "loadtest", "executor-http"} <= set(services)
    assert set(commands) <= get_commands().keys()
    for image in {service["image"] for service in SERVICES.values()}:
        assert f"`{image}`" in text or image == IMAGE


def blocks_of_the_guide() -> list[str]:
    return re.findall(r"```bash\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def findings(document: dict[str, Any]) -> set[str]:
    """What `check --deploy` says in the API's container."""
    process = processes(document)["api"]
    values = env.read(process.environment)
    it = deployment.Installation(values, process.configure(), Path("/nowhere"))
    known = {rule.id for rule in deployment.RULES}
    assert set(values["SILENCED_CHECKS"]) <= known
    broken = {rule.id for rule in deployment.RULES if rule.is_broken(it)}
    return broken - set(values["SILENCED_CHECKS"])


def test_containers_can_do_little_and_are_reached_from_this_machine_only() -> None:
    for name, service in SERVICES.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        if name != "kafka":
            assert service["read_only"] is True, name
            assert "/tmp" in service["tmpfs"], name  # noqa: S108 (the container's)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
    assert LEADER["networks"]["servers"]["internal"] is True
    published = {name for name, service in SERVICES.items() if service.get("ports")}
    assert published == {"api", "prometheus", "grafana"}
    assert all("outside" in SERVICES[name]["networks"] for name in published)


def test_executors_can_be_scaled() -> None:
    for name, process in processes(LEADER).items():
        if process.command in {"runexecutor", "runreaper", "runfanout"}:
            assert not SERVICES[name].keys() & {"container_name", "ports", "hostname"}


def test_roles_get_the_time_that_they_need_to_end() -> None:
    for name, process in processes(LEADER).items():
        patience = parse_duration(SERVICES[name]["stop_grace_period"])
        drain = process.configure().executor.drain_timeout
        assert patience > drain + timedelta(seconds=20)


def test_prometheus_looks_for_every_role_and_grafana_for_prometheus() -> None:
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    (job,) = [job for job in config["scrape_configs"] if job["job_name"] == "chronos"]
    (discovery,) = job["dns_sd_configs"]
    # An executor answers to the one name that all have in common.
    roles = {
        "executor" if process.command == "runexecutor" else name
        for name, process in processes(LEADER).items()
        if process.is_role
    }
    (source,) = yaml.safe_load(
        (ROOT / "deploy/grafana/provisioning/datasources/prometheus.yml").read_text()
    )["datasources"]

    assert set(discovery["names"]) == roles
    for name, service in SERVICES.items():
        networks = service["networks"]
        named = networks["servers"] if isinstance(networks, dict) else {}
        assert named == ({"aliases": ["executor"]} if name.startswith("executor-") else {}), name
    assert {process.configure().listen.metrics_port for process in processes(LEADER).values()} == {
        discovery["port"]
    }
    assert source["url"] == "http://prometheus:9090"
