"""Network policies: each role reaches what it needs, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from jobs.delivery.addresses import may_reach
from jobs.delivery.config import HTTP
from tests.deploy.manifests import LARGE, SMALL, Manifests
from tests.deploy.network import Peer, Policies, outside

# What listens where, as settings.env and secret.example.yaml say it.
SERVERS = {
    "MongoDB": (Peer("servers"), 27017),
    "Kafka": (Peer("servers"), 9092),
    "etcd": (Peer("servers"), 2379),
    "traces": (Peer("monitoring"), 4318),
    "DNS": (Peer("kube-system"), 53),
}
NEEDS = {
    "api": {"MongoDB", "traces", "DNS"},
    "scheduler": {"MongoDB", "Kafka", "etcd", "traces", "DNS"},
    "fanout": {"MongoDB", "Kafka", "traces", "DNS"},
    "executor": {"MongoDB", "Kafka", "traces", "DNS"},
    "reaper": {"MongoDB", "Kafka", "traces", "DNS"},
    "migrate": {"MongoDB", "Kafka", "DNS"},
}
PUBLIC = ("198.41.0.4", "2620:fe::fe")
METADATA = "169.254.169.254"
DOCTOR = re.compile(r"exec deploy/(\S+) -- python manage\.py doctor")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", params=[SMALL, LARGE], ids=["small", "large"])
def manifests(request: pytest.FixtureRequest) -> Manifests:
    return Manifests(request.param)


@pytest.fixture
def policies(manifests: Manifests) -> Policies:
    return Policies(manifests.of("NetworkPolicy"))


def test_each_role_reaches_the_servers_that_it_needs_and_no_others(
    manifests: Manifests, policies: Policies
) -> None:
    for each in manifests.workloads:
        reached = {name for name, (to, port) in SERVERS.items() if policies.let_out(each, to, port)}
        assert reached == NEEDS[each.role], each.name
        assert policies.let_out(each, Peer("kube-system"), 53, "UDP")
        assert not policies.let_out(each, Peer("servers"), 22)
        assert not policies.let_out(each, Peer("somewhere"), 27017)


def test_doctor_runs_where_all_servers_are_reached(
    manifests: Manifests, policies: Policies
) -> None:
    for page in ("docs/runbook.md", "deploy/README.md", "deploy/kubernetes/README.md"):
        named = {f"Deployment {name}" for name in DOCTOR.findall((ROOT / page).read_text())}
        assert named, page
        doctors = [each for each in manifests.workloads if each.name in named]
        assert {each.name for each in doctors} == named, page
        for each in doctors:
            for name, (to, port) in SERVERS.items():
                assert policies.let_out(each, to, port), f"{page}: {each.name} to {name}"


def test_requests_come_from_the_gateway_and_scrapes_from_monitoring(
    manifests: Manifests, policies: Policies
) -> None:
    for each in manifests.workloads:
        asked = {
            (name, port)
            for name in ("ingress", "monitoring", "chronos", "somewhere")
            for port in (8080, 9100, 22)
            if policies.let_in(each, Peer(name), port)
        }
        expected = set() if each.role == "migrate" else {("monitoring", 9100)}
        assert asked == (expected | {("ingress", 8080)} if each.role == "api" else expected)
        assert not policies.let_in(each, outside(PUBLIC[0]), 8080)


def test_only_who_makes_http_deliveries_reaches_the_internet(
    manifests: Manifests, policies: Policies
) -> None:
    reaching = set()
    for each in manifests.workloads:
        found = {policies.let_out(each, outside(to), port) for to in PUBLIC for port in (80, 443)}
        assert len(found) == 1
        if found == {True}:
            reaching.add(each.name)
            assert not policies.let_out(each, outside(PUBLIC[0]), 25)
        assert not policies.let_out(each, outside(METADATA), 80)

    assert reaching == {each.name for each in manifests.executors if HTTP in each.job_types}


def test_an_http_delivery_is_let_to_the_addresses_that_an_executor_would_let_it_to(
    manifests: Manifests, policies: Policies
) -> None:
    [executor] = [each for each in manifests.executors if HTTP in each.job_types]

    for address in borders(manifests):
        let_out = policies.let_out(executor, outside(address), 443)
        assert let_out == may_reach(ip_address(address), ()), address


def borders(manifests: Manifests) -> Iterator[str]:
    """The first and last address of every block that policies name, and those beside them."""
    for policy in manifests.of("NetworkPolicy"):
        for rule in policy["spec"].get("egress", ()):
            for block in (peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer):
                for each in map(ip_network, (block["cidr"], *block["except"])):
                    for end, step in ((each[0], -1), (each[-1], 1)):
                        yield str(end)
                        if 0 <= int(end) + step < 2**each.max_prefixlen:
                            yield str(end + step)


def test_the_servers_are_where_the_settings_say(manifests: Manifests) -> None:
    for each in manifests.workloads:
        config = each.process.configure()
        for name, addresses in (
            ("Kafka", config.broker.brokers),
            ("etcd", config.election.endpoints),
        ):
            peer, port = SERVERS[name]
            assert all(a.endswith(f".{peer.namespace}.svc:{port}") for a in addresses)
