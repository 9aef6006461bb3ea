"""What only etcd can do to an election: lose a member or its quorum, a key, or its manners."""

from __future__ import annotations

import base64
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings

from chronos_site.config import ElectionConfig
from devstack.etcd import Etcd
from devstack.process import free_port
from jobs.errors import ElectionUnavailable
from scheduler.leadership import Term, elector_for
from scheduler.leadership.elector import Unanswered, uptime
from scheduler.leadership.gateway import Gateway
from tests.roles.candidates import (
    Campaigns,
    CandidateProcess,
    assert_one_leader_at_a_time,
    term_of,
)

TTL = timedelta(seconds=4)
SOON = timedelta(seconds=30)
EVERY_KEY = {"key": base64.b64encode(b"\0").decode(), "range_end": base64.b64encode(b"\0").decode()}
wait_for_step = CandidateProcess.wait_for_step


class Member(Etcd):
    """One of three."""

    def __init__(self, directory: Path, peer_ports: Sequence[int], index: int) -> None:
        super().__init__(directory, binary=settings.ENV["ETCD_BIN"])
        self._peers = [f"http://127.0.0.1:{port}" for port in peer_ports]
        self._index = index

    def command(self) -> list[str]:
        own = self._peers[self._index]
        everyone = ",".join(f"m{index}={peer}" for index, peer in enumerate(self._peers))
        return [
            # Of a flag given twice etcd takes the later one.
            *super().command(),
            f"--name=m{self._index}",
            f"--listen-peer-urls={own}",
            f"--initial-advertise-peer-urls={own}",
            f"--initial-cluster={everyone}",
        ]


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Member]]:
    """Three members of a cluster; the first one leads it."""
    ports = [free_port() for _ in range(3)]
    members = [Member(tmp_path / f"m{index}", ports, index) for index in range(3)]
    try:
        for member in members:
            member.start()
        for member in members:
            member.wait_ready()
        yield sorted(members, key=leads_cluster, reverse=True)
    finally:
        for member in members:
            member.kill()


def ask(server: Etcd, path: str, body: dict[str, Any]) -> Any:
    answer = httpx.post(f"http://{server.address}{path}", json=body, trust_env=False)
    return answer.raise_for_status().json()


def leads_cluster(member: Member) -> bool:
    status = ask(member, "/v3/maintenance/status", {})
    return bool(status["leader"] == status["header"]["member_id"])


def config_for(*servers: Etcd) -> ElectionConfig:
    return ElectionConfig("etcd", tuple(server.address for server in servers), TTL)


def lead(config: ElectionConfig, on_lost: Callable[[], None] | None = None) -> Term:
    term = elector_for(config, "one").campaign(threading.Event(), on_lost)
    assert term is not None
    return term


@pytest.fixture
def start(members: list[Member]) -> Iterator[Callable[[str], CandidateProcess]]:
    """Starts candidates that know all members and talk to the first one."""
    started: list[CandidateProcess] = []

    def start(owner: str) -> CandidateProcess:
        started.append(CandidateProcess(config_for(*members), owner))
        return started[-1]

    yield start
    for candidate in started:
        candidate.close()
    assert_one_leader_at_a_time(started)


def test_somebody_leads_on_when_the_member_that_everybody_uses_is_killed(
    members: list[Member], start: Callable[[str], CandidateProcess]
) -> None:
    candidates = start("one"), start("two")
    step = wait_for_step(*candidates, within=SOON)

    members[0].kill()

    # Longer than any term can go on without a renewal.
    later = step.at + TTL.total_seconds()
    later = wait_for_step(*candidates, since=later, within=SOON).at + TTL.total_seconds()
    wait_for_step(*candidates, since=later, within=SOON)


def test_a_standby_takes_over_when_the_leader_and_the_member_it_used_die_together(
    members: list[Member], start: Callable[[str], CandidateProcess]
) -> None:
    leader = start("one")
    term = wait_for_step(leader, within=SOON).term
    standby = start("two")
    wait_until_standing(members[1], 2)

    members[0].kill()
    leader.signal(signal.SIGKILL)

    # The cluster elects a new leader of its own first, which gives every lease a whole TTL again.
    wait_for_step(standby, after_term=term, within=SOON)


def test_nobody_leads_without_a_quorum_and_somebody_does_when_it_is_back(
    members: list[Member], start: Callable[[str], CandidateProcess]
) -> None:
    leader = start("one")
    term = wait_for_step(leader, within=SOON).term
    standby = start("two")
    wait_until_standing(members[1], 2)

    members[1].kill()
    members[2].kill()

    assert leader.wait_for_end(term, within=SOON)
    members[1].start()
    wait_for_step(leader, standby, after_term=term, within=SOON)


def test_a_term_ends_when_a_person_deletes_its_key(private_etcd: Callable[[], Etcd]) -> None:
    etcd = private_etcd()
    over = threading.Event()
    term = lead(config_for(etcd), over.set)

    ask(etcd, "/v3/kv/deleterange", EVERY_KEY)

    assert over.wait(SOON.total_seconds())
    assert not term.is_valid()


def test_no_lease_stays_behind(
    private_etcd: Callable[[], Etcd], monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine: nobody is in a hurry here.
    for patience in ("_FAREWELL", "_RESIGNATION", "_RESIGNATION_PER_MEMBER"):
        monkeypatch.setattr(f"scheduler.leadership.etcd.{patience}", SOON.total_seconds())
    etcd = private_etcd()
    with Campaigns(config_for(etcd)) as campaigns:
        term = term_of(campaigns.stand("one"))
        standby = campaigns.stand("two")
        wait_until_standing(etcd, 2)

        campaigns.stop.set()
        standby.result()
        leases_with_a_leader = leases(etcd)
        term.resign()

    assert len(leases_with_a_leader) == 1
    assert not leases(etcd)


def test_a_waiting_candidate_keeps_its_place(private_etcd: Callable[[], Etcd]) -> None:
    etcd = private_etcd()
    ttl = timedelta(seconds=3)
    with Campaigns(ElectionConfig("etcd", (etcd.address,), ttl)) as campaigns:
        term = term_of(campaigns.stand("one"))
        campaigns.stand("two")
        wait_until_standing(etcd, 2)
        before = keys(etcd)

        assert not term.lost.wait(ttl.total_seconds() * 2)

        assert keys(etcd) == before


def test_a_lease_that_could_not_be_revoked_does_not_hold_up_the_next_campaign(
    private_etcd: Callable[[], Etcd],
) -> None:
    etcd = private_etcd()
    elector = elector_for(ElectionConfig("etcd", (etcd.address,), timedelta(minutes=1)), "one")
    term = elector.campaign(threading.Event())
    assert term is not None
    etcd.kill()
    term.resign()
    etcd.start()
    etcd.wait_ready()
    (stale,) = leases(etcd)

    successor = elector.campaign(threading.Event())

    assert successor is not None
    assert successor.number > term.number
    assert stale not in leases(etcd)
    successor.resign()


@pytest.mark.parametrize("hangs", [True, False])
def test_a_member_that_is_down_or_hangs_is_left_for_another(
    private_etcd: Callable[[], Etcd], hangs: bool
) -> None:
    with closing(socket.socket()) as bad:
        bad.bind(("127.0.0.1", 0))
        if hangs:
            bad.listen()
        address = f"127.0.0.1:{bad.getsockname()[1]}"

        term = lead(ElectionConfig("etcd", (address, private_etcd().address), TTL))

        assert not term.lost.wait(TTL.total_seconds())
        assert term.is_valid()
        term.resign()


def test_a_leader_goes_on_when_its_member_hangs(members: list[Member]) -> None:
    term = lead(config_for(*members[1:]))

    os.kill(members[1].pid, signal.SIGSTOP)

    assert not term.lost.wait(TTL.total_seconds() * 1.5)
    assert term.is_valid()
    term.resign()


def test_a_refusal_for_good_is_raised(private_etcd: Callable[[], Etcd]) -> None:
    ttl = timedelta(days=365 * 1000)
    elector = elector_for(ElectionConfig("etcd", (private_etcd().address,), ttl), "one")

    with pytest.raises(ElectionUnavailable, match="too large lease TTL"):
        elector.campaign(threading.Event())


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x16\x03\x01 this is no HTTP",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        b'HTTP/1.1 500 Internal Server Error\r\nContent-Length: 24\r\n\r\n{"code":2,"message":"x"}',
        b'HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n{"error":{"grpc_code":14,"message":"no"}}',
    ],
)
def test_an_answer_that_makes_no_sense_is_a_reason_to_try_again(answer: bytes) -> None:
    with pytest.raises(Unanswered):
        call_a_server_that_answers(answer)


def test_a_server_that_is_no_etcd_is_refused() -> None:
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found"

    with pytest.raises(ElectionUnavailable, match="no etcd gateway") as refused:
        call_a_server_that_answers(answer)

    assert not isinstance(refused.value, Unanswered)


def call_a_server_that_answers(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            gateway = Gateway([f"127.0.0.1:{server.getsockname()[1]}"])
            gateway.call("/v3/lease/grant", {"TTL": 1}, deadline=uptime() + SOON.total_seconds())
        finally:
            serving.join()


def leases(etcd: Etcd) -> list[str]:
    return [lease["ID"] for lease in ask(etcd, "/v3/lease/leases", {}).get("leases", ())]


def keys(etcd: Etcd) -> list[str]:
    return [pair["key"] for pair in ask(etcd, "/v3/kv/range", EVERY_KEY).get("kvs", ())]


def wait_until_standing(etcd: Etcd, candidates: int) -> None:
    give_up_at = uptime() + SOON.total_seconds()
    while len(keys(etcd)) < candidates:
        assert uptime() < give_up_at
        time.sleep(0.02)


def test_each_database_has_a_leader_of_its_own(private_etcd: Callable[[], Etcd]) -> None:
    config = config_for(private_etcd())

    terms = [lead(replace(config, database=name)) for name in ("one", "two")]

    assert all(term.is_valid() for term in terms)
    for term in terms:
        term.resign()
