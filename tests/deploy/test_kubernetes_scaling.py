"""ScaledObjects: of one mind with the code about topics, groups and metrics, and able to scale."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from executor.metrics import BUSY
from jobs.delivery.config import DELIVERY_TYPES
from jobs.messages import consumer_group, dispatch_topic
from reaper.metrics import JOBS_DUE
from tests.deploy.manifests import LARGE, ROOT, SECRETS, TLS, Document, Manifests, Workload
from tools import debian
from tools.scaling_model import Signals
from tools.scaling_simulation import CHOICES

SHARE_OF_SLOTS = 0.75
MOST_COUNTED = 10_000
"""Of a type's due jobs: docs/operations.md."""
ALL = CHOICES["lag, due, busy"]
PROMETHEUS = "http://prometheus.monitoring.svc:9090"
"""Where deploy/kubernetes/README.md says that KEDA looks for it."""

SASL = {
    "PLAIN": "plaintext",
    "SCRAM-SHA-256": "scram_sha256",
    "SCRAM-SHA-512": "scram_sha512",
}
"""KEDA's names: https://keda.sh/docs/2.20/scalers/apache-kafka/"""

Pair = tuple[Workload, Document]


@pytest.fixture(scope="module")
def large() -> Manifests:
    return Manifests(LARGE)


@pytest.fixture(scope="module")
def pairs(large: Manifests) -> list[Pair]:
    """Each group of executors, and what scales it."""
    return list(_pairs(large))


def _pairs(large: Manifests) -> Iterator[Pair]:
    scalers = {
        each["spec"]["scaleTargetRef"]["name"]: each["spec"] for each in large.of("ScaledObject")
    }
    for executor in large.executors:
        yield executor, scalers.pop(executor.document["metadata"]["name"])
    assert not scalers


def triggers(scaler: Document, kind: str) -> list[Document]:
    return [each["metadata"] for each in scaler["triggers"] if each["type"] == kind]


def prometheus(scaler: Document, name: str) -> dict[str, Any]:
    """The one trigger of this name."""
    [found] = [each for each in scaler["triggers"] if each.get("name") == name]
    assert found["type"] == "prometheus"
    return dict(found["metadata"])


def slots(executor: Workload) -> int:
    """Jobs that it runs at once."""
    config = executor.process.configure()
    if executor.job_types <= DELIVERY_TYPES:
        return config.delivery.concurrency
    concurrency: int | None = executor.process.parse_arguments().concurrency
    return concurrency or config.executor.concurrency


def test_every_group_is_scaled_and_by_nobody_else(pairs: list[Pair]) -> None:
    assert len(pairs) > 1
    for executor, scaler in pairs:
        # A number in the manifest would undo KEDA's at each `kubectl apply`.
        assert executor.replicas is None
        assert scaler["minReplicaCount"] == 0


def test_lag_is_that_of_each_of_its_types_and_never_asks_for_a_second(pairs: list[Pair]) -> None:
    for executor, scaler in pairs:
        found = triggers(scaler, "kafka")
        assert {(each["topic"], each["consumerGroup"]) for each in found} == {
            (dispatch_topic(job_type), consumer_group(job_type)) for job_type in executor.job_types
        }
        for each in found:
            assert int(each["lagThreshold"]) == ALL.lag
            # As executors begin: jobs/broker/membership.py.
            assert each["offsetResetPolicy"] == "earliest"
            assert each["bootstrapServersFromEnv"] in executor.environment


def test_keda_speaks_to_kafka_as_executors_do(large: Manifests, pairs: list[Pair]) -> None:
    [keda] = large.of("TriggerAuthentication")
    for executor, scaler in pairs:
        security = executor.process.configure().broker.security
        assert security.is_encrypted
        assert security.mechanism is not None
        for each in (each for each in scaler["triggers"] if each["type"] == "kafka"):
            assert each["metadata"]["tls"] == "enable"
            assert each["metadata"]["sasl"] == SASL[security.mechanism]
            assert each["authenticationRef"]["name"] == keda["metadata"]["name"]
        assert {each["parameter"]: each["name"] for each in keda["spec"]["env"]} == {
            "username": "KAFKA_SASL_USERNAME"
        }
        secrets = {each["parameter"]: each["name"] for each in keda["spec"]["secretTargetRef"]}
        keys = {each["parameter"]: each["key"] for each in keda["spec"]["secretTargetRef"]}
        assert keys["password"] in SECRETS[secrets["password"]]
        [volume] = [each for each in executor.pod["volumes"] if each["name"] == "tls"]
        assert secrets["ca"] == volume["secret"]["secretName"]
        assert security.ca == str(TLS / keys["ca"])


def test_the_backlog_and_what_runs_are_those_of_its_types(pairs: list[Pair]) -> None:
    for executor, scaler in pairs:
        for name, gauge in (("due", JOBS_DUE), ("busy", BUSY)):
            query = prometheus(scaler, name)["query"]
            [(metric, pattern)] = re.findall(r'(\w+)\{job_type=~"([^"]+)"\}', query)
            assert metric == next(iter(gauge.describe())).name
            assert set(pattern.split("|")) == executor.job_types


def test_all_groups_are_looked_at_and_let_go_as_the_simulation_has_it(pairs: list[Pair]) -> None:
    for executor, scaler in pairs:
        assert scaler["pollingInterval"] == ALL.polling, executor.name
        assert scaler["cooldownPeriod"] == ALL.cooldown, executor.name


def test_keda_asks_the_prometheus_that_the_guide_names(pairs: list[Pair]) -> None:
    assert f"`{PROMETHEUS.removeprefix('http://')}`" in (ROOT / "README.md").read_text()

    for _, scaler in pairs:
        addresses = {each["serverAddress"] for each in triggers(scaler, "prometheus")}
        assert addresses == {PROMETHEUS}


def test_thresholds_fit_the_executor_and_reach_the_most(pairs: list[Pair]) -> None:
    for executor, scaler in pairs:
        most = scaler["maxReplicaCount"]
        assert most <= executor.process.configure().broker.partitions
        assert float(prometheus(scaler, "busy")["threshold"]) == SHARE_OF_SLOTS * slots(executor)
        assert float(prometheus(scaler, "due")["threshold"]) * most <= MOST_COUNTED


def test_without_an_answer_nothing_is_scaled_down_and_no_executor_runs_nothing(
    pairs: list[Pair],
) -> None:
    for _, scaler in pairs:
        # The reaper shows each known type, also with none due: nothing at all is no answer.
        assert prometheus(scaler, "due")["ignoreNullValues"] == "false"
        assert "ignoreNullValues" not in prometheus(scaler, "busy")


def test_the_simulation_is_of_these_manifests(pairs: list[Pair]) -> None:
    [scaler] = [scaler for executor, scaler in pairs if "noop" in executor.job_types]

    assert (
        Signals(
            lag=float(triggers(scaler, "kafka")[0]["lagThreshold"]),
            due=float(prometheus(scaler, "due")["threshold"]),
            busy=float(prometheus(scaler, "busy")["threshold"]),
            most=scaler["maxReplicaCount"],
            polling=scaler["pollingInterval"],
            cooldown=scaler["cooldownPeriod"],
        )
        == ALL
    )


def test_each_query_gives_one_number_whoever_reports(pairs: list[Pair], tmp_path: Path) -> None:
    """Two reapers count the same jobs, executors each their own; other types do not matter."""
    for executor, scaler in pairs:
        series = {
            f'jobs_due{{job_type="{job_type}",instance="reaper-{n}"}}': "4x20"
            for job_type in (*executor.job_types, "another")
            for n in (1, 2)
        } | {
            f'executor_busy{{job_type="{job_type}",instance="executor-{n}"}}': "2x20"
            for job_type in (*executor.job_types, "another")
            for n in (1, 2, 3)
        }
        types = len(executor.job_types)
        expected = {"due": 4 * types, "busy": 2 * 3 * types}
        check = {
            "evaluation_interval": "15s",
            "tests": [
                {
                    "interval": "15s",
                    "input_series": [{"series": s, "values": v} for s, v in series.items()],
                    "promql_expr_test": [
                        {
                            "expr": prometheus(scaler, name)["query"],
                            "eval_time": "2m",
                            "exp_samples": [{"labels": "{}", "value": value}],
                        }
                        for name, value in expected.items()
                    ],
                }
            ],
        }
        path = tmp_path / "test.yaml"
        path.write_text(yaml.safe_dump(check))
        done = subprocess.run(
            [debian.find("promtool"), "test", "rules", str(path)],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
