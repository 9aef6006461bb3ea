"""A term trusts the clock, not its renewals."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from jobs.errors import ElectionUnavailable
from scheduler.leadership import elector
from scheduler.leadership.elector import Term

TTL = timedelta(seconds=10)
TRUST = 8.0
"""Seconds that a renewal is trusted: the TTL less the margin."""
SOON = 30.0


class Clock:
    """`uptime`, set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class ScriptedClaim:
    """Renews by a function of the test's, and notes its release."""

    def __init__(self, renew: Callable[[threading.Event], bool] = lambda abandon: True) -> None:
        self.releases = 0
        self._renew = renew

    def renew(self, deadline: float, abandon: threading.Event) -> bool:
        return self._renew(abandon)

    def release(self) -> None:
        self.releases += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(elector, "uptime", clock)
    return clock


def test_a_term_is_over_when_nothing_was_renewed_for_the_ttl_less_a_margin(clock: Clock) -> None:
    ends: list[str] = []
    term = Term(7, ScriptedClaim(), ttl=TTL, since=clock.now, on_lost=lambda: ends.append("over"))

    clock.now += TRUST - 0.1
    valid_before = term.is_valid()
    clock.now += 0.1

    assert valid_before
    assert not term.is_valid()
    assert not term.is_valid()
    assert term.lost.is_set()
    assert ends == ["over"]


def test_a_renewal_counts_from_its_start_however_late_the_answer(clock: Clock) -> None:
    calls: list[str] = []
    again = threading.Event()

    def answer_late_and_only_once(abandon: threading.Event) -> bool:
        calls.append("renew")
        if len(calls) == 1:
            clock.now += 0.05
            return True
        again.set()
        abandon.wait(SOON)
        raise ElectionUnavailable("abandoned")

    started = clock.now
    claim = ScriptedClaim(answer_late_and_only_once)
    term = Term(7, claim, ttl=timedelta(seconds=0.1), since=started - 0.02)
    assert again.wait(SOON)

    clock.now = started + 0.079
    valid_before = term.is_valid()
    clock.now = started + 0.081

    assert valid_before
    assert not term.is_valid()


def test_a_claim_that_is_gone_ends_the_term() -> None:
    over = threading.Event()

    term = Term(
        7,
        ScriptedClaim(lambda abandon: False),
        ttl=timedelta(seconds=0.3),
        since=elector.uptime(),
        on_lost=over.set,
    )

    assert over.wait(SOON)
    assert not term.is_valid()


def test_a_failing_renewal_is_repeated_and_told_once(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[str] = []
    renewed = threading.Event()

    def succeed_at_last(abandon: threading.Event) -> bool:
        tries.append("try")
        if len(tries) < 4:
            raise ElectionUnavailable("away")
        renewed.set()
        return True

    term = Term(7, ScriptedClaim(succeed_at_last), ttl=timedelta(seconds=1), since=clock.now)

    assert renewed.wait(SOON)
    assert term.is_valid()
    term.resign()
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ["term 7 is not renewed: away"]


def test_many_may_resign_and_the_claim_is_released_once(clock: Clock) -> None:
    claim = ScriptedClaim()
    ends: list[str] = []

    def resign_too() -> None:
        ends.append("over")
        term.resign()

    term = Term(7, claim, ttl=TTL, since=clock.now, on_lost=resign_too)

    threads = [threading.Thread(target=term.resign) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ends == ["over"]
    assert claim.releases == 1


def test_a_term_may_be_resigned_by_its_own_thread() -> None:
    claim = ScriptedClaim(lambda abandon: False)
    resigned = threading.Event()

    def resign() -> None:
        term.resign()
        resigned.set()

    term = Term(7, claim, ttl=timedelta(seconds=0.1), since=elector.uptime(), on_lost=resign)

    assert resigned.wait(SOON)
    assert claim.releases == 1
