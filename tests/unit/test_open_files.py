"""Deliveries have the open files that they need, or the executor says that it lacks them."""

from __future__ import annotations

import resource

import pytest

from executor.delivery.open_files import allow_open_files
from jobs.errors import ConfigError


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The limits as they are set, the newest last."""
    limits = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda which, pair: limits.append(pair))
    return limits


def test_a_limit_that_suffices_is_left_alone(limits: list[tuple[int, int]]) -> None:
    allow_open_files(512)

    assert limits == [(1024, 4096)]


def test_a_limit_that_may_be_raised_is_raised(limits: list[tuple[int, int]]) -> None:
    allow_open_files(1000)

    assert limits[-1] == (1550, 4096)


def test_what_may_not_be_had_is_told_with_the_way_out(limits: list[tuple[int, int]]) -> None:
    with pytest.raises(ConfigError) as refused:
        allow_open_files(4000)

    assert str(refused.value) == (
        "DELIVERY_CONCURRENCY=4000 needs 5300 open files, and this process may have 4096."
        " Lower it, or raise the limit (ulimit -Hn)."
    )


def test_no_limit_is_no_limit(limits: list[tuple[int, int]]) -> None:
    limits.append((resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    allow_open_files(10_000)

    assert len(limits) == 2
