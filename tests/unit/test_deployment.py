"""`manage.py check --deploy`: it says what must not be so in production; a right set-up passes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from cryptography.fernet import Fernet
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.security import SecurityMiddleware
from django.test import RequestFactory, override_settings

from chronos_site import env
from chronos_site.config import config_from
from jobs.deployment import RULES, Installation

ROOT = Path(__file__).resolve().parents[2]
MANAGE = ROOT / "manage.py"
KEY: Final = "".join(map(chr, range(40, 95)))
EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - nothing listens here
CERTIFICATE: Final = __file__
"""Only whether the file is there is looked at."""
RIGHT: Final = {
    "SECRET_KEY": KEY,
    "ALLOWED_HOSTS": "chronos.example.com",
    "HTTPS": "true",
    "MONGO_URI": f"mongodb://u:hidden-word@db1,db2/?replicaSet=rs0&tls=true&tlsCAFile={CERTIFICATE}",
    "KAFKA_BROKERS": "kafka1:9092",
    "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
    "KAFKA_SASL_USERNAME": "chronos",
    "KAFKA_SASL_PASSWORD": "hidden-word",
    "KAFKA_REPLICATION": "3",
    "ETCD_ENDPOINTS": "etcd1:2379,etcd2:2379",
    "ETCD_TLS_CA": CERTIFICATE,
    "ETCD_USERNAME": "chronos",
    "ETCD_PASSWORD": "hidden-word",
    "ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    "RETENTION_COMPLETED": "720h",
    "RETENTION_EXECUTIONS": "720h",
    "DELIVERY_ALLOWED_NETWORKS": "10.20.0.0/16",
}
PLAIN_KAFKA: Final = {name: "" for name in RIGHT if name.startswith("KAFKA_S")}
REDIS: Final = {"LEADER_BACKEND": "redis"}


def broken(directory: Path, **changes: str) -> list[str]:
    values = env.read(RIGHT | changes)
    it = Installation(values, config_from(values), directory)
    return [rule.id for rule in RULES if rule.is_broken(it)]


def test_a_right_set_up_breaks_no_rule(tmp_path: Path) -> None:
    assert broken(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        ({"DEBUG": "true"}, ["chronos.E001"]),
        ({"SECRET_KEY": ""}, ["chronos.E002"]),
        ({"SECRET_KEY": "short"}, ["chronos.E003"]),
        ({"SECRET_KEY": "abcd" * 20}, ["chronos.E003"]),
        ({"SECRET_KEY": f"django-insecure-{KEY}"}, ["chronos.E003"]),
        ({"SECRET_KEY": f"change-me-{KEY}"}, ["chronos.E003"]),
        (
            {"SECRET_KEY": "<50 random characters or more, which nobody else knows>"},
            ["chronos.E003"],
        ),
        ({"ALLOWED_HOSTS": ""}, ["chronos.E005"]),
        ({"ALLOWED_HOSTS": "chronos.example.com,*"}, ["chronos.E005"]),
        ({"HTTPS": "false"}, ["chronos.E006"]),
        ({"MONGO_URI": "mongodb://u:hidden-word@db1/?tls=false"}, ["chronos.E007"]),
        ({"MONGO_URI": "mongodb+srv://u:hidden-word@db.example.com/"}, []),
        ({"MONGO_URI": "mongodb://u:hidden-word@db1/?tls=true&tlsInsecure=true"}, ["chronos.E008"]),
        # pymongo separates by a semicolon too.
        (
            {"MONGO_URI": "mongodb+srv://u:hidden-word@h/?tlsInsecure=true;appName=x"},
            ["chronos.E008"],
        ),
        ({"MONGO_URI": "mongodb://db1/?tls=true"}, ["chronos.E009"]),
        ({"MONGO_URI": "mongodb://db1/?tls=true&authMechanism=MONGODB-X509"}, []),
        ({"MONGO_URI": "mongodb://127.0.0.1:27017,[::1]:27018,localhost/"}, []),
        ({"MONGO_URI": "mongodb://%2Ftmp%2Fmongodb-27017.sock/?replicaSet=rs0"}, []),
        (
            {"MONGO_URI": "mongodb://%2Ftmp%2Fmongodb-27017.sock,db2/"},
            ["chronos.E007", "chronos.E009"],
        ),
        ({"MONGO_URI": "mongodb://u:hidden-word@db1/?tls=true&w=1"}, ["chronos.W006"]),
        (PLAIN_KAFKA, ["chronos.E010", "chronos.E011"]),
        (PLAIN_KAFKA | {"KAFKA_BROKERS": "localhost:9092,[::1]:9093"}, []),
        (PLAIN_KAFKA | {"KAFKA_SECURITY_PROTOCOL": "SSL"}, ["chronos.E011"]),
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT"}, ["chronos.E010"]),
        ({"ETCD_TLS_CA": ""}, ["chronos.E012"]),
        ({"ETCD_USERNAME": "", "ETCD_PASSWORD": ""}, ["chronos.E013"]),
        (REDIS | {"REDIS_URL": "redis://:hidden-word@cache:6379/0"}, ["chronos.E012"]),
        (REDIS | {"REDIS_URL": "rediss://cache:6379/0"}, ["chronos.E013"]),
        (
            REDIS | {"REDIS_URL": "rediss://:hidden-word@cache:6379/0?ssl_cert_reqs=none"},
            ["chronos.E014"],
        ),
        (REDIS | {"REDIS_URL": "rediss://:hidden-word@cache:6379/0", "ETCD_TLS_CA": ""}, []),
        ({"DELIVERY_ALLOWED_NETWORKS": "0.0.0.0/0"}, ["chronos.E015"]),
        ({"DELIVERY_ALLOWED_NETWORKS": "::/0"}, ["chronos.E015"]),
        *(
            ({"DELIVERY_ALLOWED_NETWORKS": network}, ["chronos.W003"])
            for network in (
                *("127.0.0.0/8", "::1/128", "169.254.169.254/32", "fe80::/10", "fd00:ec2::254/128"),
                *("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd20:ce::254/128"),
                *("fd00:c1::a9fe:a9fe/128", "100.64.0.0/10", "fc00::/7", "10.0.0.0/8,160.0.0.0/3"),
            )
        ),
        ({"DELIVERY_ALLOWED_NETWORKS": "10.0.0.0/8,172.16.0.0/12,fd00:20::/48"}, []),
        ({"MONGO_URI": "mongodb://u:change-me@db1/?tls=true"}, ["chronos.E016"]),
        ({"MONGO_URI": "mongodb://u:%3Cpassword%3E@db1/?tls=true"}, ["chronos.E016"]),
        ({"MONGO_URI": "mongodb://reporting:reporting@db1/?tls=true"}, ["chronos.E016"]),
        ({"KAFKA_SASL_PASSWORD": "password"}, ["chronos.E016"]),
        ({"KAFKA_SASL_PASSWORD": "my-secret-password1"}, ["chronos.E016"]),
        ({"ETCD_PASSWORD": "Secret"}, ["chronos.E016"]),
        ({"ETCD_PASSWORD": "123456789"}, ["chronos.E016"]),
        (REDIS | {"REDIS_URL": "rediss://:foobared@cache:6379/0"}, ["chronos.E016"]),
        (REDIS | {"REDIS_URL": "rediss://cache:6379/0?password=${REDIS}"}, ["chronos.E016"]),
        ({"REDIS_URL": "redis://:foobared@cache:6379/0"}, []),
        (REDIS | {"REDIS_URL": "rediss://:hidden-word@cache/0", "ETCD_PASSWORD": "secret"}, []),
        ({"ENCRYPTION_KEYS": f"{RIGHT['ENCRYPTION_KEYS']},{'A' * 43}="}, ["chronos.E017"]),
        ({"API_HOST": EVERYWHERE}, ["chronos.W001"]),
        ({"METRICS_HOST": "::"}, ["chronos.W002"]),
        ({"ENCRYPTION_KEYS": ""}, ["chronos.W004"]),
        ({"KAFKA_REPLICATION": "1"}, ["chronos.W005"]),
        ({"RETENTION_COMPLETED": ""}, ["chronos.W007"]),
    ],
)
def test_each_mistake_breaks_its_rule(
    changes: dict[str, str], ids: list[str], tmp_path: Path
) -> None:
    assert broken(tmp_path, **changes) == ids


@pytest.mark.parametrize(
    ("file", "name"), [("secret.key", "SECRET_KEY"), ("encryption.key", "ENCRYPTION_KEYS")]
)
def test_a_key_of_devstack_is_recognised(file: str, name: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(RIGHT[name])

    assert broken(tmp_path) == ["chronos.E004"]


def test_every_rule_stands_in_the_document_in_the_same_words() -> None:
    page = (ROOT / "docs" / "security.md").read_text().replace("`", "")

    listed = re.findall(r"^\| (chronos\.\w+) \| (.*?) \| (.*?) \|$", page, re.MULTILINE)

    assert listed == [(rule.id, rule.problem, rule.remedy) for rule in RULES]


def check(**changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(MANAGE), "check", "--deploy", "--fail-level", "WARNING"],
        env=env.for_child(DJANGO_SETTINGS_MODULE="chronos_site.settings", **RIGHT | changes),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_right_set_up_passes_django_s_checks_too() -> None:
    reasons = "chronos.W001: the gateway authenticates; chronos.W002: only Prometheus gets in"

    passed = check(API_HOST=EVERYWHERE, METRICS_HOST=EVERYWHERE, SILENCED_CHECKS=reasons)

    assert passed.returncode == 0, passed.stderr


@pytest.mark.parametrize(
    ("path", "status"), [("/admin/", 301), ("/jobs", 200), ("/v1/definitions", 200), ("/docs", 200)]
)
def test_people_are_sent_to_https_and_clients_are_not(path: str, status: int) -> None:
    with override_settings(SECURE_SSL_REDIRECT=True):
        answer = SecurityMiddleware(lambda _: HttpResponse())(RequestFactory().get(path))

    assert isinstance(answer, HttpResponseBase)
    assert answer.status_code == status


def test_a_wrong_set_up_fails_and_shows_no_secret() -> None:
    failed = check(DEBUG="true", API_HOST=EVERYWHERE)

    assert failed.returncode == 1
    for expected in ("chronos.E001", "chronos.W001", "HINT"):
        assert expected in failed.stderr
    assert "hidden-word" not in failed.stderr
    assert KEY not in failed.stderr


def test_a_check_is_silenced_with_a_reason_only() -> None:
    failed = check(SILENCED_CHECKS="chronos.W001")

    assert failed.returncode == 1
    assert "must be id: reason" in failed.stderr
