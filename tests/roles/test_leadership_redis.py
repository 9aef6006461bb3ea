"""What only Redis can do to an election: forget it, be set to another time, ask for a password."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from redis import Redis as Client

from chronos_site.config import ElectionConfig
from devstack.redis import Redis
from jobs.errors import ConfigError, ElectionUnavailable
from scheduler.leadership import Term, elector_for
from scheduler.leadership.elector import Unanswered
from tests.roles.candidates import (
    Campaigns,
    CandidateProcess,
    assert_one_leader_at_a_time,
    election_on,
    pretend_held_before,
    term_of,
)
from tests.waiting import wait_for
from tests.wall_clock import WallClock

TTL = timedelta(seconds=4)
SHORTEST_TTL = timedelta(seconds=1)
SOON = timedelta(seconds=30)
HOUR = timedelta(hours=1)
KEY = "chronos/chronos/scheduler"
PASSWORD = "correct-horse"  # noqa: S105 (of this test's server only)
wait_for_step = CandidateProcess.wait_for_step


class RedisWithClock(Redis):
    """A Redis whose wall clock the test sets."""

    def __init__(self, directory: Path, wall_clock: WallClock) -> None:
        super().__init__(directory, binary=settings.ENV["REDIS_BIN"])
        self._wall_clock = wall_clock

    def command(self) -> list[str]:
        variables = [f"{name}={value}" for name, value in self._wall_clock.environment.items()]
        return ["/usr/bin/env", *variables, *super().command()]


class RedisOnDisk(Redis):
    """A Redis that keeps its data, as one in production does."""

    def command(self) -> list[str]:
        # Of an option given twice Redis takes the later one.
        return [*super().command(), "--appendonly", "yes"]


@pytest.fixture
def start_server() -> Iterator[Callable[[Redis], Redis]]:
    started: list[Redis] = []

    def start(server: Redis) -> Redis:
        started.append(server)
        server.start()
        server.wait_ready()
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def servers_clock(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path)


@pytest.fixture
def redis(
    tmp_path: Path, start_server: Callable[[Redis], Redis], servers_clock: WallClock
) -> Redis:
    return start_server(RedisWithClock(tmp_path / "redis", servers_clock))


@pytest.fixture
def client(redis: Redis) -> Iterator[Client]:
    with Client.from_url(redis.location, decode_responses=True) as client:
        yield client


@pytest.fixture
def config(redis: Redis) -> ElectionConfig:
    config = election_on("redis", [redis.address], TTL)
    pretend_held_before(config)
    return config


@pytest.fixture
def start(config: ElectionConfig) -> Iterator[Callable[[str], CandidateProcess]]:
    """Starts candidates in processes. In the end, no two of them ever led at once."""
    started: list[CandidateProcess] = []

    def start(owner: str) -> CandidateProcess:
        started.append(CandidateProcess(config, owner))
        return started[-1]

    yield start
    for candidate in started:
        candidate.close()
    assert_one_leader_at_a_time(started)


def lead(config: ElectionConfig, on_lost: Callable[[], None] | None = None) -> Term:
    term = elector_for(config, "one").campaign(threading.Event(), on_lost)
    assert term is not None
    return term


def test_a_server_that_remembers_no_election_lets_everybody_wait_for_a_ttl(
    config: ElectionConfig,
) -> None:
    another = replace(config, database="another")
    started = time.monotonic()
    terms = [lead(another)]
    first = time.monotonic() - started
    terms[0].resign()
    terms.append(lead(another))
    second = time.monotonic() - started - first
    terms[1].resign()

    assert second < TTL.total_seconds() <= first < SOON.total_seconds()


def test_a_server_that_remembers_another_run_keeps_a_claim_for_its_whole_ttl(
    client: Client, config: ElectionConfig
) -> None:
    client.hset(f"{KEY}/memory", "run", "another")
    client.set(KEY, "1000 somebody", px=300)
    started = time.monotonic()

    term = lead(config)

    assert 1 <= time.monotonic() - started < SOON.total_seconds()
    term.resign()


def test_nobody_leads_beside_the_leader_of_whom_the_server_lost_its_memory(
    client: Client, start: Callable[[str], CandidateProcess]
) -> None:
    leader = start("one")
    term = wait_for_step(leader, within=SOON).term
    standby = start("two")
    wait_until_waiting(client, 1)

    client.flushall()
    # Wakes the standby, so that it looks while the leader still trusts its term.
    client.publish(KEY, "look")

    # `start` checks that it was one of them at a time.
    wait_for_step(leader, standby, after_term=term, within=SOON)


def test_terms_are_numbered_upwards_when_the_memory_is_lost(
    client: Client, config: ElectionConfig
) -> None:
    term = lead(config)
    term.resign()

    client.flushall()

    successor = lead(replace(config, ttl=SHORTEST_TTL))
    assert successor.number > term.number
    successor.resign()


def test_terms_are_numbered_upwards_when_the_servers_clock_is_set_back(
    config: ElectionConfig, servers_clock: WallClock
) -> None:
    term = lead(config)
    term.resign()

    servers_clock.jump(-HOUR)

    successor = lead(config)
    assert successor.number == term.number + 1
    successor.resign()


def test_a_claim_that_a_restarted_server_remembers_lives_on(
    tmp_path: Path, start_server: Callable[[Redis], Redis]
) -> None:
    redis = start_server(RedisOnDisk(tmp_path / "redis", binary=settings.ENV["REDIS_BIN"]))
    config = election_on("redis", [redis.address], TTL)
    pretend_held_before(config)
    with Campaigns(config) as campaigns:
        term = term_of(campaigns.stand("one"))
        standby = campaigns.stand("two")

        redis.restart()

        assert not term.lost.wait(TTL.total_seconds() * 1.5)
        assert not standby.done()
        term.resign()
        assert term_of(standby).number > term.number


def test_a_release_is_heard_at_once_however_long_the_ttl(config: ElectionConfig) -> None:
    with Campaigns(replace(config, ttl=timedelta(minutes=1))) as campaigns:
        term = term_of(campaigns.stand("one"))
        standbys = [campaigns.stand(owner) for owner in ("two", "three")]
        assert not wait(standbys, 0.5).done

        term.resign()

        done, _ = wait(standbys, SOON.total_seconds(), "FIRST_COMPLETED")
        assert len(done) == 1


def test_a_person_who_deletes_the_key_ends_the_term_of_its_holder_and_no_other(
    client: Client, config: ElectionConfig
) -> None:
    over = threading.Event()
    term = lead(config, over.set)

    client.delete(KEY)
    successor = lead(config)

    assert over.wait(SOON.total_seconds())
    assert not term.is_valid()
    term.resign()
    assert not successor.lost.wait(TTL.total_seconds())
    successor.resign()


@pytest.mark.parametrize("value", ["junk", "2000 somebody who left no time"])
def test_a_key_that_never_expires_is_cured(
    client: Client, config: ElectionConfig, value: str
) -> None:
    client.set(KEY, value)

    term = lead(config)

    assert term.is_valid()
    term.resign()


def test_a_leader_with_a_longer_ttl_keeps_it(client: Client, config: ElectionConfig) -> None:
    term = lead(replace(config, ttl=timedelta(minutes=1)))
    with Campaigns(config) as campaigns:
        campaigns.stand("two")
        wait_until_waiting(client, 1)

        assert client.pttl(KEY) > TTL.total_seconds() * 1000

    assert term.is_valid()
    term.resign()


def test_nothing_but_the_memory_stays_behind(client: Client, config: ElectionConfig) -> None:
    lead(config).resign()

    assert client.keys() == [f"{KEY}/memory"]
    wait_for(lambda: client.info("clients")["connected_clients"] == 1)


def test_each_database_has_a_leader_of_its_own(config: ElectionConfig) -> None:
    terms = [lead(config), lead(replace(config, database="another", ttl=SHORTEST_TTL))]

    assert all(term.is_valid() for term in terms)
    for term in terms:
        term.resign()


def test_a_password_opens_the_server_and_shows_nowhere(
    client: Client, config: ElectionConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client.config_set("requirepass", PASSWORD)
    address = config.endpoints[0]
    secured = replace(config, redis_url=f"redis://:{PASSWORD}@{address}/1")

    lead(secured).resign()
    refusals = []
    for url in (config.redis_url, secured.redis_url.replace(PASSWORD, "wrong-" + PASSWORD)):
        with pytest.raises(ElectionUnavailable, match=f"Redis {address}") as refused:
            lead(replace(config, redis_url=url))
        refusals.append(refused.value)

    assert not any(isinstance(refusal, Unanswered) for refusal in refusals)
    shown = [caplog.text, repr(secured), *map(repr, refusals)]
    assert PASSWORD not in "".join(shown)


def test_a_user_needs_few_rights(client: Client, config: ElectionConfig) -> None:
    client.execute_command(
        *("ACL", "SETUSER", "chronos", "on", f">{PASSWORD}", "resetkeys", "resetchannels"),
        *("~chronos/*", "&chronos/*", "-@all", "+eval", "+info", "+time", "+subscribe"),
        *("+publish", "+get", "+set", "+del", "+pttl", "+pexpire", "+hget", "+hset"),
    )

    url = f"redis://chronos:{PASSWORD}@{config.endpoints[0]}/0"
    with Campaigns(replace(config, redis_url=url)) as campaigns:
        term = term_of(campaigns.stand("one"))
        standby = campaigns.stand("two")
        assert not term.lost.wait(TTL.total_seconds())
        term.resign()
        assert term_of(standby).is_valid()


@pytest.mark.parametrize("rest", [":pass/word@host:6379", "host:port", "host?max=1", "host?db=x"])
def test_an_address_that_cannot_be_used_is_refused_without_showing_it(
    config: ElectionConfig, rest: str
) -> None:
    with pytest.raises(ConfigError, match="REDIS_URL cannot be used") as refused:
        elector_for(replace(config, redis_url=f"redis://{rest}"), "one")

    assert refused.value.__suppress_context__
    assert "pass" not in str(refused.value).replace("password", "")


def test_a_leader_goes_on_when_the_servers_clock_is_set_back(
    client: Client, config: ElectionConfig, servers_clock: WallClock
) -> None:
    with Campaigns(config) as campaigns:
        term = term_of(campaigns.stand("one"))
        standby = campaigns.stand("two")

        servers_clock.jump(-HOUR)

        assert not term.lost.wait(TTL.total_seconds() * 1.5)
        assert server_is_ahead_by(client) < -HOUR / 2
        assert not standby.done()
        term.resign()
        assert term_of(standby).number > term.number


def test_a_dead_leader_is_replaced_though_the_servers_clock_is_set_back(
    start: Callable[[str], CandidateProcess], client: Client, servers_clock: WallClock
) -> None:
    leader = start("one")
    term = wait_for_step(leader, within=SOON).term
    standby = start("two")
    wait_until_waiting(client, 1)

    leader.signal(signal.SIGKILL)
    servers_clock.jump(-HOUR)

    # The standby first waits for the end it was told, and then for a whole TTL.
    wait_for_step(standby, after_term=term, within=SOON)


def test_two_lead_until_the_next_renewal_when_the_servers_clock_is_set_ahead(
    client: Client, config: ElectionConfig, servers_clock: WallClock
) -> None:
    with Campaigns(config) as campaigns:
        term = term_of(campaigns.stand("one"))
        standby = campaigns.stand("two")
        wait_until_waiting(client, 1)

        servers_clock.jump(HOUR)
        client.publish(KEY, "look")

        successor = term_of(standby)
        assert term.lost.wait(SOON.total_seconds())
        assert server_is_ahead_by(client) > HOUR / 2
        assert successor.number > term.number
        assert not successor.lost.wait(TTL.total_seconds() * 1.5)


def server_is_ahead_by(client: Client) -> timedelta:
    seconds, _ = client.time()
    return timedelta(seconds=seconds - time.time())


def wait_until_waiting(client: Client, candidates: int) -> None:
    wait_for(lambda: client.pubsub_numsub(KEY) == [(KEY, candidates)])
