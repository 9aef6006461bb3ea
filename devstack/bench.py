"""The benchmark: a private stack, the same load tests several times over, one table of all runs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from django.conf import settings

from chronos_site import env
from devstack import process
from devstack.process import Child, DevstackError, free_port

MANAGE: Final = settings.BASE_DIR / "manage.py"
RATE: Final = 20
"""Jobs per second of the runs that measure latency."""
FLOOD: Final = 4000
"""Jobs per second that POST /jobs is offered: more than it can take."""
FLOOD_CONNECTIONS: Final = 8
_START_TIMEOUT: Final = timedelta(minutes=2)
_STOP_TIMEOUT: Final = timedelta(minutes=1)
_POLL_SECONDS: Final = 0.1
# Emptied, so that servers of others are left alone.
_ELSEWHERE: Final = ("MONGO_URI", "KAFKA_BROKERS", "ETCD_ENDPOINTS")
_PORTS: Final = (
    *("DEVSTACK_MONGO_PORT", "DEVSTACK_KAFKA_PORT", "DEVSTACK_ETCD_PORT"),
    *("API_PORT", "METRICS_PORT"),
)
_IS_UP: Final = "Ctrl-C stops everything."

Report = Mapping[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoadTest:
    """One kind of load test, and which of its findings go into the table."""

    title: str
    arguments: Sequence[str]
    rows: Mapping[str, Callable[[Report], str]]
    is_flood: bool = False
    """Asks for more than is possible, so that it cannot but warn."""


def load_tests(backlog: int, duration: timedelta) -> list[LoadTest]:
    """What one run consists of.

    Args:
        backlog: jobs in the backlog that is drained; half as many are posted one by one.
        duration: of the runs that measure latency.
    """
    posted = backlog // 2
    seconds = duration.total_seconds()
    rate = [f"--rate={RATE}", f"--duration={seconds}s"]
    return [
        LoadTest(
            "a backlog",
            [f"--backlog={backlog}", f"--due-in={_time_to_store(backlog, at_least=1000)}s"],
            {
                f"drain of a backlog of {backlog:,}, jobs/s": _number("finishedPerSecond"),
                "`POST /jobs/bulk`, jobs/s": _number("submittedPerSecond"),
            },
        ),
        LoadTest(
            "POST /jobs as fast as it goes",
            [
                f"--rate={FLOOD}",
                f"--duration={posted / FLOOD}s",
                f"--connections={FLOOD_CONNECTIONS}",
                f"--due-in={_time_to_store(posted, at_least=400)}s",
            ],
            {
                "`POST /jobs`, jobs/s": _number("submittedPerSecond"),
                "the client's share of a core meanwhile, %": _client_cpu,
            },
            is_flood=True,
        ),
        LoadTest(
            f"{RATE} jobs/s, due at once",
            rate,
            {
                f"`POST /jobs` at {RATE}/s, ms": _spread("ackMs"),
                "planned submission → start, ms": _spread("startLagMs"),
                "created → start, ms": _spread("createdToStartMs"),
                "planned submission → end, ms": _spread("endToEndMs"),
            },
        ),
        LoadTest(
            f"{RATE} jobs/s, due later",
            # The first comes due when the last has been submitted.
            [*rate, f"--due-in={seconds + 1}s"],
            {"lag of jobs due later at distinct moments, ms": _spread("startLagMs")},
        ),
    ]


def _time_to_store(jobs: int, *, at_least: int) -> float:
    """Seconds after which the last has been stored, on machines that take `at_least` a second."""
    return 1 + jobs / at_least


def _number(name: str) -> Callable[[Report], str]:
    return lambda report: f"{report[name]:,.0f}"


def _client_cpu(report: Report) -> str:
    return f"{report['client']['cpuPercent']:.0f}"


def _spread(name: str) -> Callable[[Report], str]:
    return lambda report: " / ".join(f"{value:g}" for value in report[name].values())


def bench(*, runs: int, backlog: int, duration: timedelta, parent: Path, say: Say) -> str:
    """Measure, and describe what was found in Markdown.

    Args:
        runs: how often each load test is made; all of them are reported.
        backlog, duration: see `load_tests`.
        parent: where the stack's data are, in a directory that is removed afterwards.
        say: told what happens.

    Raises:
        DevstackError: the stack did not start, or a load test failed.
    """
    facts = _machine()
    tests = load_tests(backlog, duration)
    cells: dict[str, list[str]] = {row: [] for test in tests for row in test.rows}
    notes: list[str] = []
    with _private_stack(parent, say) as environment:
        # Nothing is measured until every part has worked once.
        _load_test(["--backlog=1000", "--due-in=1s"], environment)
        for run in range(1, runs + 1):
            cells.setdefault("load average before the run", []).append(f"{os.getloadavg()[0]:.1f}")
            for test in tests:
                say(f"run {run} of {runs}: {test.title}")
                report = _load_test(test.arguments, environment)
                for row, cell in test.rows.items():
                    cells[row].append(cell(report))
                if not test.is_flood:
                    notes += [f"Run {run}, {test.title}: {text}" for text in report["warnings"]]
    return "\n".join([facts, "", *_table(cells, runs), *(f"\n{note}" for note in notes)])


@contextmanager
def _private_stack(parent: Path, say: Say) -> Iterator[Mapping[str, str]]:
    """Yields the environment of the stack's clients."""
    parent.mkdir(parents=True, exist_ok=True)
    # Beside the data of a devstack, as the system's directory may be in memory.
    with TemporaryDirectory(prefix="bench-", dir=parent) as directory:
        environment = env.for_child(
            **dict.fromkeys(_ELSEWHERE, ""),
            **{name: str(free_port()) for name in _PORTS},
            DEVSTACK_DIR=directory,
            LOG_LEVEL="WARNING",
            PYTHONUNBUFFERED="1",
        )
        log = Path(directory, "devstack.log")
        with log.open("wb") as output:
            stack = process.spawn(
                [sys.executable, str(MANAGE), "devstack"], output=output, environment=environment
            )
        try:
            say("starting a private stack")
            _wait_until_up(stack, log)
            yield environment
        finally:
            process.stop(stack, _STOP_TIMEOUT)


def _wait_until_up(stack: Child, log: Path) -> None:
    give_up_at = time.monotonic() + _START_TIMEOUT.total_seconds()
    while _IS_UP not in (output := log.read_text(errors="replace")):
        if stack.poll() is not None or time.monotonic() > give_up_at:
            raise DevstackError(f"The stack did not start:\n{output}")
        time.sleep(_POLL_SECONDS)


def _load_test(arguments: Sequence[str], environment: Mapping[str, str]) -> Report:
    finished = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, str(MANAGE), "loadtest", "--json", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        check=False,
    )
    if finished.returncode != 0:
        raise DevstackError(
            f"loadtest {' '.join(arguments)} failed.\n{finished.stdout.decode(errors='replace')}"
        )
    report: Report = json.loads(finished.stdout)
    return report


def _machine() -> str:
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    kernel = platform.release().partition("-")[0]
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} × {cpu}, {memory_gib:.0f} GiB of memory,"
        f" Linux {kernel}, Python {platform.python_version()}."
        " Latencies are p50 / p95 / p99 / max."
    )


def _table(cells: Mapping[str, Sequence[str]], runs: int) -> Iterator[str]:
    yield f"| measured | {' | '.join(f'run {run}' for run in range(1, runs + 1))} |"
    yield "|---|" + "---|" * runs
    for row, values in cells.items():
        yield f"| {row} | {' | '.join(values)} |"
