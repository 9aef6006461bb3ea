"""One leader at a time: the suite that every election backend passes, on its real server."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from chronos_site.config import ElectionConfig
from devstack.server import Server
from scheduler.leadership import elector_for
from tests.roles.candidates import (
    Campaigns,
    CandidateProcess,
    assert_one_leader_at_a_time,
    election_on,
    pretend_held_before,
    term_of,
)
from tests.waiting import assert_takes_at_most, wait_for
from tests.wall_clock import WallClock

BACKENDS = ("etcd", "redis")
TTL = timedelta(seconds=4)
"""A candidate that the machine does not let run for half of it loses its term, as it must."""
LONG_TTL = timedelta(minutes=1)
"""Nobody waits for its end."""
SOON = timedelta(seconds=30)
"""Without waiting for anybody's TTL but a short one, on a machine that is slow and busy."""
HOUR = timedelta(hours=1)
wait_for_step = CandidateProcess.wait_for_step


@dataclass(frozen=True)
class Election:
    """An election of the test's own, and the server that holds it."""

    config: ElectionConfig
    server: Server


@pytest.fixture(params=BACKENDS)
def election(request: pytest.FixtureRequest) -> Election:
    server: Server = request.getfixturevalue(f"private_{request.param}")()
    config = election_on(request.param, [server.address], TTL)
    if config.backend == "redis":
        pretend_held_before(config)
    return Election(config, server)


@pytest.fixture
def wall_clock(tmp_path: Path) -> WallClock:
    """The wall clock of the candidates that `start` starts."""
    return WallClock(tmp_path)


@pytest.fixture
def campaigns(election: Election) -> Iterator[Campaigns]:
    with Campaigns(election.config) as campaigns:
        yield campaigns


@pytest.fixture
def start(election: Election, wall_clock: WallClock) -> Iterator[Callable[..., CandidateProcess]]:
    """Starts candidates in processes. In the end, no two of them ever led at once."""
    started: list[CandidateProcess] = []

    def start(owner: str, ttl: timedelta = TTL) -> CandidateProcess:
        started.append(CandidateProcess(replace(election.config, ttl=ttl), owner, wall_clock))
        return started[-1]

    yield start
    for candidate in started:
        candidate.close()
    assert_one_leader_at_a_time(started)


def test_one_of_several_leads_until_it_resigns(election: Election) -> None:
    numbers = []
    with Campaigns(replace(election.config, ttl=LONG_TTL)) as campaigns:
        waiting = {campaigns.stand(owner) for owner in ("one", "two", "three")}

        while waiting:
            won, waiting = wait(waiting, SOON.total_seconds(), FIRST_COMPLETED)
            (term,) = map(term_of, won)
            numbers.append(term.number)
            assert term.is_valid()
            term.resign()
            assert not term.is_valid()

    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 3


def test_a_term_outlives_its_ttl_and_any_jump_of_the_wall_clock(
    campaigns: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    term = term_of(campaigns.stand("one"))
    standby = campaigns.stand("two")
    wall_clock = time.time

    for jump in (timedelta(days=1), -timedelta(days=1)):
        monkeypatch.setattr(time, "time", lambda jump=jump: wall_clock() + jump.total_seconds())
        assert not term.lost.wait(TTL.total_seconds())

    assert term.is_valid()
    assert not standby.done()


def test_resigning_twice_does_nothing_more(campaigns: Campaigns) -> None:
    ends: list[str] = []
    term = term_of(campaigns.stand("one", lambda: ends.append("over")))
    term.resign()
    successor = term_of(campaigns.stand("two"))

    term.resign()

    assert ends == ["over"]
    assert successor.is_valid()


def test_an_elector_ends_its_term_before_it_stands_again(election: Election) -> None:
    elector = elector_for(election.config, "one")
    stop = threading.Event()
    first = elector.campaign(stop)

    second = elector.campaign(stop)

    assert first is not None
    assert first.lost.is_set()
    assert second is not None
    assert second.number > first.number
    second.resign()


def test_nothing_stays_behind_in_the_process(election: Election, campaigns: Campaigns) -> None:
    before, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    elector, stop = elector_for(election.config, "one"), threading.Event()

    for _ in range(3):
        term = elector.campaign(stop)
        assert term is not None
        term.resign()
    stop.set()
    assert elector.campaign(stop) is None

    # A thread of an earlier test may have ended meanwhile.
    assert set(threading.enumerate()) <= before
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= files)


def test_a_waiting_candidate_stops_at_once(campaigns: Campaigns) -> None:
    leader = term_of(campaigns.stand("one"))
    standby = campaigns.stand("two")
    with pytest.raises(TimeoutError):
        standby.result(0.5)

    campaigns.stop.set()

    assert standby.result(SOON.total_seconds()) is None
    assert leader.is_valid()


def test_a_candidate_stops_at_once_when_the_server_hangs(
    election: Election, campaigns: Campaigns
) -> None:
    os.kill(election.server.pid, signal.SIGSTOP)
    candidate = campaigns.stand()
    with pytest.raises(TimeoutError):
        candidate.result(0.5)

    campaigns.stop.set()

    assert candidate.result(SOON.total_seconds()) is None


def test_a_leader_resigns_without_waiting_for_its_ttl_when_the_server_hangs(
    election: Election,
) -> None:
    with Campaigns(replace(election.config, ttl=LONG_TTL)) as campaigns:
        term = term_of(campaigns.stand())
        os.kill(election.server.pid, signal.SIGSTOP)
        started = time.monotonic()

        term.resign()

        assert time.monotonic() - started < SOON.total_seconds()
        assert not term.is_valid()


def test_a_candidate_waits_for_a_server_that_comes_later(
    election: Election, campaigns: Campaigns
) -> None:
    election.server.kill()
    candidate = campaigns.stand()
    with pytest.raises(TimeoutError):
        candidate.result(0.5)

    election.server.start()

    assert term_of(candidate).is_valid()


def test_a_term_ends_by_itself_when_the_server_is_gone(
    election: Election, campaigns: Campaigns
) -> None:
    over = threading.Event()
    term = term_of(campaigns.stand("one", over.set))

    election.server.kill()

    assert over.wait(SOON.total_seconds())
    assert term.lost.is_set()
    assert not term.is_valid()


def test_a_standby_takes_over_from_a_killed_leader_within_the_ttl_and_two_seconds(
    start: Callable[..., CandidateProcess],
) -> None:
    candidates = [start("one")]

    def take() -> timedelta:
        leader = candidates[-1]
        term = wait_for_step(leader, within=SOON).term
        standby = start(f"standby {len(candidates)}")
        candidates.append(standby)
        # Long enough for it to have stood for election.
        wait_for_step(leader, since=time.monotonic() + 2, within=SOON)
        killed_at = leader.signal(signal.SIGKILL)
        step = wait_for_step(standby, after_term=term, within=SOON)
        return timedelta(seconds=step.at - killed_at)

    assert_takes_at_most(TTL + timedelta(seconds=2), take)


def test_a_standby_takes_over_at_once_from_a_leader_that_ends_in_good_order(
    start: Callable[..., CandidateProcess],
) -> None:
    candidates = [start("one", LONG_TTL)]

    def take() -> timedelta:
        leader = candidates[-1]
        term = wait_for_step(leader, within=SOON).term
        standby = start(f"standby {len(candidates)}", LONG_TTL)
        candidates.append(standby)
        # Long enough for it to have stood for election.
        wait_for_step(leader, since=time.monotonic() + 2, within=SOON)
        ended_at = leader.signal(signal.SIGTERM)
        step = wait_for_step(standby, after_term=term, within=SOON)
        assert leader.wait(within=SOON) == 0
        return timedelta(seconds=step.at - ended_at)

    assert_takes_at_most(timedelta(seconds=1), take)


def test_a_leader_stopped_for_longer_than_its_ttl_knows_at_once_that_its_term_is_over(
    start: Callable[..., CandidateProcess],
) -> None:
    leader = start("one")
    term = wait_for_step(leader, within=SOON).term
    standby = start("two")
    leader.signal(signal.SIGSTOP)
    wait_for_step(standby, after_term=term, within=SOON)

    continued_at = leader.signal(signal.SIGCONT)

    assert leader.wait_for_end(term, within=SOON)
    assert not [step for step in leader.steps if step.at > continued_at]


def test_a_standby_stopped_for_longer_than_its_ttl_has_lost_its_place(
    start: Callable[..., CandidateProcess],
) -> None:
    leader = start("one")
    term = wait_for_step(leader, within=SOON).term
    standby = start("two")
    wait_for_step(leader, since=time.monotonic() + TTL.total_seconds(), within=SOON)
    standby.signal(signal.SIGSTOP)
    wait_for_step(leader, since=time.monotonic() + TTL.total_seconds() * 2, within=SOON)
    third = start("three")
    leader.signal(signal.SIGTERM)
    term = wait_for_step(third, after_term=term, within=SOON).term

    # Its turn came while it was stopped, and went.
    standby.signal(signal.SIGCONT)

    wait_for_step(third, since=time.monotonic() + TTL.total_seconds() / 2, within=SOON)
    assert not standby.steps
    third.signal(signal.SIGTERM)
    wait_for_step(standby, after_term=term, within=SOON)


def test_somebody_leads_again_after_a_crash_of_the_server(
    election: Election, start: Callable[..., CandidateProcess]
) -> None:
    candidates = start("one"), start("two")
    wait_for_step(*candidates, within=SOON)

    election.server.kill()
    election.server.start()
    election.server.wait_ready()

    step = wait_for_step(*candidates, since=time.monotonic(), within=SOON)
    wait_for_step(*candidates, since=step.at + TTL.total_seconds(), within=SOON)


def test_somebody_leads_again_after_the_server_was_away_for_longer_than_the_ttl(
    election: Election, start: Callable[..., CandidateProcess]
) -> None:
    leader = start("one")
    term = wait_for_step(leader, within=SOON).term
    standby = start("two")
    election.server.kill()
    assert leader.wait_for_end(term, within=SOON)

    election.server.start()

    wait_for_step(leader, standby, after_term=term, within=SOON)


def test_somebody_leads_again_after_a_restart_of_the_server(
    election: Election, start: Callable[..., CandidateProcess]
) -> None:
    candidates = start("one"), start("two")
    wait_for_step(*candidates, within=SOON)

    election.server.restart()

    step = wait_for_step(*candidates, since=time.monotonic(), within=SOON)
    wait_for_step(*candidates, since=step.at + TTL.total_seconds(), within=SOON)


def test_a_jump_of_the_wall_clock_changes_nothing_for_leader_and_standby(
    start: Callable[..., CandidateProcess], wall_clock: WallClock
) -> None:
    leader = start("one")
    term = wait_for_step(leader, within=SOON).term
    standby = start("two")

    for jump in (HOUR, -HOUR):
        wall_clock.jump(jump)
        step = wait_for_step(leader, since=time.monotonic() + TTL.total_seconds(), within=SOON)
        assert step.term == term
        assert abs(step.wall_clock - time.time() - jump.total_seconds()) < 60

    assert not leader.ends
    assert not standby.steps
    leader.signal(signal.SIGKILL)
    wall_clock.jump(HOUR)
    wait_for_step(standby, within=SOON)
