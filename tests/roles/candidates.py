"""Candidates of an election: in threads of the test, or in processes to stall and kill.

A process says on standard output what it does: `CandidateProcess` is the test's end of it, `main`
the other.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self

from redis import Redis as Client

from chronos_site import env
from chronos_site.config import ElectionConfig
from devstack import process
from scheduler.leadership import Term, elector_for
from tests.wall_clock import WallClock

ROOT = Path(__file__).resolve().parents[2]


def election_on(backend: str, endpoints: Sequence[str], ttl: timedelta) -> ElectionConfig:
    """An election that the servers at these addresses hold."""
    return ElectionConfig(backend, tuple(endpoints), ttl, redis_url=f"redis://{endpoints[0]}/0")


def pretend_held_before(config: ElectionConfig) -> None:
    """Make Redis remember an election on this server, so that nobody waits for a TTL."""
    with Client.from_url(config.redis_url, decode_responses=True) as client:
        run = client.info("server")["run_id"]
        client.hset(f"chronos/{config.database}/scheduler/memory", "run", run)


class Campaigns:
    """Candidates in threads. In the end all of them stop and resign."""

    def __init__(self, config: ElectionConfig) -> None:
        self.stop = threading.Event()
        self._config = config
        self._threads = ThreadPoolExecutor()
        self._campaigns: list[Future[Term | None]] = []

    def stand(
        self, owner: str = "one", on_lost: Callable[[], None] | None = None
    ) -> Future[Term | None]:
        """Start a campaign. The future's result is what `Elector.campaign` returns."""
        campaign = elector_for(self._config, owner).campaign
        self._campaigns.append(self._threads.submit(campaign, self.stop, on_lost))
        return self._campaigns[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._threads.shutdown()
        for campaign in self._campaigns:
            if not campaign.exception() and (term := campaign.result()):
                term.resign()


def term_of(campaign: Future[Term | None]) -> Term:
    """The term, once it is won."""
    term = campaign.result(timeout=30)
    assert term is not None
    return term


class Step(NamedTuple):
    """A moment at which a candidate asked its term whether it leads, and was told so."""

    at: float
    term: int
    wall_clock: float


class CandidateProcess:
    """A running candidate. It dies with the test run, however that ends."""

    _news = threading.Condition()
    """Shared by all, so that a test can wait for any of them."""

    def __init__(
        self, config: ElectionConfig, owner: str, wall_clock: WallClock | None = None
    ) -> None:
        self.steps: list[Step] = []
        self.ends: dict[int, bool] = {}
        """The terms it lost, and whether `lost` was set when `is_valid` said so."""
        self._other_output: list[str] = []
        self._child = process.spawn(
            [
                *(sys.executable, str(Path(__file__)), config.backend),
                *(",".join(config.endpoints), str(config.ttl.total_seconds()), owner),
            ],
            output=subprocess.PIPE,
            environment=env.for_child(
                PYTHONPATH=str(ROOT), **(wall_clock.environment if wall_clock else {})
            ),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for_end(self, term: int, *, within: timedelta) -> bool:
        """Wait until the term is over for this candidate. Returns whether `lost` was set."""
        with self._news:
            assert self._news.wait_for(lambda: term in self.ends, within.total_seconds()), self
            return self.ends[term]

    def signal(self, number: signal.Signals) -> float:
        """Send a signal. Returns when."""
        self._child.send_signal(number)
        return time.monotonic()

    def wait(self, *, within: timedelta) -> int:
        """The exit code, once it has ended."""
        return self._child.wait(within.total_seconds())

    def close(self) -> None:
        """Kill it, and read the rest of its output."""
        process.kill(self._child)
        self._reader.join()

    def __str__(self) -> str:
        return f"{self._child.args!r}, last steps {self.steps[-3:]}, {self._other_output}"

    def _read(self) -> None:
        assert self._child.stdout is not None
        with self._child.stdout as output:
            for line in output:
                with self._news:
                    match line.decode().split():
                        case ["step", at, term, wall_clock]:
                            self.steps.append(Step(float(at), int(term), float(wall_clock)))
                        case ["over", term, lost]:
                            self.ends[int(term)] = lost == "True"
                        case _:
                            self._other_output.append(line.decode().rstrip())
                    self._news.notify_all()

    @classmethod
    def wait_for_step(
        cls,
        *candidates: CandidateProcess,
        within: timedelta,
        after_term: int = 0,
        since: float = 0,
    ) -> Step:
        """The first step that one of them takes in a later term and after an instant."""

        def first() -> Step | None:
            steps = (step for candidate in candidates for step in candidate.steps)
            return next((s for s in steps if s.term > after_term and s.at > since), None)

        with cls._news:
            cls._news.wait_for(first, within.total_seconds())
            step = first()
        assert step is not None, f"nobody leads: {[*map(str, candidates)]}"
        return step


def assert_one_leader_at_a_time(candidates: Sequence[CandidateProcess]) -> None:
    """No candidate took a step in an earlier term after somebody took one in a later term."""
    steps = sorted(step for candidate in candidates for step in candidate.steps)
    assert steps
    for earlier, later in pairwise(steps):
        assert earlier.term <= later.term, f"{earlier} and then {later}"


def main(backend: str, endpoints: str, ttl_seconds: str, owner: str) -> None:
    """Stand for election again and again, and take a step every few milliseconds while leading."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    ttl = timedelta(seconds=float(ttl_seconds))
    elector = elector_for(election_on(backend, endpoints.split(","), ttl), owner)
    while term := elector.campaign(stop):
        while not stop.is_set():
            at = time.monotonic()
            if not term.is_valid():
                say("over", term.number, term.lost.is_set())
                break
            say("step", at, term.number, time.time())
            term.lost.wait(0.005)
        else:
            term.resign()


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
