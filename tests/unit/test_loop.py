"""The loop of every role: it outlives each error and heeds its stop."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from jobs.errors import BrokerUnavailable, StoreUnavailable
from jobs.loop import persist, run
from tests.builders import NOW


class Script:
    """Steps and waits that each do what they are told next; the last one stops the loop."""

    def __init__(self, *, steps: list[bool | Exception], waits: list[Exception | None]) -> None:
        self.stop = threading.Event()
        self.done: list[str] = []
        self._steps = iter(steps)
        self._waits = iter(waits)

    def run_once(self, now: datetime) -> bool:
        self.done.append("step")
        match next(self._steps, None):
            case None:
                self.stop.set()
                return False
            case Exception() as error:
                raise error
            case bool(more):
                return more

    def wait(self) -> None:
        self.done.append("wait")
        if (error := next(self._waits, None)) is not None:
            raise error


def answering(*answers: Any) -> Callable[[], Any]:
    """A call that returns, or raises, these one after the other."""
    script = iter(answers)

    def call() -> Any:
        answer = next(script)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return call


def play(script: Script) -> list[str]:
    run(script, clock=lambda: NOW, stop=script.stop)
    return script.done


def test_the_loop_waits_only_when_there_is_nothing_more_to_do() -> None:
    script = Script(steps=[True, True, False], waits=[])

    assert play(script) == ["step", "step", "step", "wait", "step"]


@pytest.mark.parametrize("error", [StoreUnavailable("away"), RuntimeError("a bug")])
def test_an_error_in_a_step_does_not_end_the_loop(error: Exception) -> None:
    script = Script(steps=[error, False], waits=[])

    assert play(script) == ["step", "step", "wait", "step"]


@pytest.mark.parametrize("error", [StoreUnavailable("away"), RuntimeError("a bug")])
def test_an_error_while_waiting_does_not_end_the_loop(error: Exception) -> None:
    script = Script(steps=[False, False], waits=[error])

    assert play(script) == ["step", "wait", "step", "wait", "step"]


def test_a_clock_that_cannot_be_read_does_not_end_the_loop() -> None:
    script = Script(steps=[], waits=[])

    run(script, clock=answering(StoreUnavailable("never reached"), NOW), stop=script.stop)

    assert script.done == ["step"]


def test_an_outage_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="jobs.loop")
    away = StoreUnavailable("MongoDB does not answer")
    script = Script(steps=[away, away, False], waits=[])

    play(script)

    assert caplog.messages == [
        "trying again until it works: MongoDB does not answer",
        "works again",
    ]
    assert all(record.exc_info is None for record in caplog.records)


def test_a_bug_is_told_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    play(Script(steps=[RuntimeError("a bug")], waits=[]))

    assert caplog.records[0].exc_info


def test_persist_repeats_a_call_until_its_server_answers() -> None:
    call = answering(StoreUnavailable("away"), BrokerUnavailable("away"), "here")

    assert persist(call, stop=threading.Event()) == "here"


def test_persist_gives_up_when_stopped() -> None:
    stop = threading.Event()
    stop.set()

    assert persist(answering(StoreUnavailable("away")), stop=stop) is None


def test_persist_tries_once_also_when_stopped() -> None:
    stop = threading.Event()
    stop.set()

    assert persist(answering("here"), stop=stop) == "here"


def test_persist_lets_every_other_error_pass() -> None:
    with pytest.raises(LookupError):
        persist(answering(LookupError("a bug")), stop=threading.Event())


def test_a_signal_that_comes_while_the_stop_is_looked_at_stops() -> None:
    """It may come while the main thread holds the event's own lock, which is not reentrant."""
    program = """
import os, signal
from jobs.loop import stop_on_signals

stop = stop_on_signals()
with stop._cond:
    os.kill(os.getpid(), signal.SIGTERM)
print("stopped" if stop.wait(30) else "deaf")
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)

    assert run.stdout == b"stopped\n"
