"""The example of docs/handlers.md, imported and called as an executor would."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from executor.calls import call, conclude
from jobs import registry
from jobs.lifecycle import Finish, Outcome, Status
from jobs.registry import Context, Handler
from tests.builders import NOW, a_job
from tests.guide import blocks, example

URL = "http://supplier.example/prices"


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Handler]:
    """What the page's `shop/handlers.py` registers."""
    registered: dict[str, Handler] = {}
    monkeypatch.setattr(registry, "_handlers", registered)
    exec(compile(example("shop/handlers.py"), "shop/handlers.py", "exec"), {"__name__": "shop"})  # noqa: S102
    return registered


@pytest.fixture
def a_context() -> Callable[..., Context]:
    """The page's own helper for tests."""
    (block,) = [block for block in blocks() if "def a_context" in block]
    names: dict[str, Any] = {}
    exec(block, names)  # noqa: S102
    helper: Callable[..., Context] = names["a_context"]
    return helper


@pytest.fixture
def supplier(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Decides what the supplier answers."""

    def answers(status: int, **more: Any) -> None:
        response = httpx.Response(status, request=httpx.Request("GET", URL), **more)
        monkeypatch.setattr(httpx, "get", lambda *_, **__: response)

    return answers


def end_of(handler: Handler, context: Context) -> Finish:
    job = a_job(status=Status.RUNNING, claim_id="claim", claimed_by="executor-1")
    return conclude(
        job,
        lambda: call(handler.function, context),
        started_at=NOW,
        clock=lambda: NOW,
        random=0.0,
    )


def test_the_example_registers_its_handlers(handlers: dict[str, Handler]) -> None:
    assert {name: handler.in_process for name, handler in handlers.items()} == {
        "import-prices": False,
        "close-day": False,
        "count-primes": True,
    }


def test_prices_are_imported(
    handlers: dict[str, Handler],
    a_context: Callable[..., Context],
    supplier: Callable[..., None],
    tmp_path: Path,
) -> None:
    supplier(200, json={"bolt": 2, "nut": 1})
    file = tmp_path / "prices.csv"

    finish = end_of(handlers["import-prices"], a_context("import-prices", url=URL, file=str(file)))

    assert (finish.status, finish.result) == (Status.COMPLETED, '{"rows": 2}')
    assert file.read_text().split() == ["bolt,2", "nut,1"]
    assert list(tmp_path.iterdir()) == [file]


def test_a_busy_supplier_is_asked_again_when_it_said(
    handlers: dict[str, Handler], a_context: Callable[..., Context], supplier: Callable[..., None]
) -> None:
    supplier(429, headers={"Retry-After": "7"})

    finish = end_of(handlers["import-prices"], a_context("import-prices", url=URL, file="unused"))

    assert (finish.status, finish.last_error) == (Status.PENDING, "the supplier is busy")
    assert finish.scheduled_at == NOW + timedelta(seconds=7)


def test_other_errors_of_the_supplier_are_retried_by_the_policy(
    handlers: dict[str, Handler], a_context: Callable[..., Context], supplier: Callable[..., None]
) -> None:
    supplier(500)

    finish = end_of(handlers["import-prices"], a_context("import-prices", url=URL, file="unused"))

    assert finish.status is Status.PENDING
    assert finish.scheduled_at == NOW + timedelta(seconds=2)


def test_a_payload_of_no_use_is_a_dead_letter_at_once(
    handlers: dict[str, Handler], a_context: Callable[..., Context]
) -> None:
    finish = end_of(handlers["import-prices"], a_context("import-prices", url=URL))

    assert (finish.status, finish.last_error) == (Status.DLQ, "payload.file is missing")


def test_a_cancelled_import_stops_and_leaves_the_old_file(
    handlers: dict[str, Handler],
    a_context: Callable[..., Context],
    supplier: Callable[..., None],
    tmp_path: Path,
) -> None:
    supplier(200, json={"bolt": 2})
    file = tmp_path / "prices.csv"
    file.write_text("old")
    context = a_context("import-prices", url=URL, file=str(file))
    context.cancelled.set()

    end_of(handlers["import-prices"], context)

    assert file.read_text() == "old"


def test_a_day_is_closed_when_it_is_over(
    handlers: dict[str, Handler], a_context: Callable[..., Context]
) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)

    early = end_of(handlers["close-day"], a_context("close-day", notBefore=tomorrow.isoformat()))
    late = end_of(handlers["close-day"], a_context("close-day", notBefore=NOW.isoformat()))

    assert (early.attempt.outcome, early.scheduled_at) == (Outcome.SNOOZED, tomorrow)
    assert late.status is Status.COMPLETED


def test_primes_are_counted(
    handlers: dict[str, Handler], a_context: Callable[..., Context]
) -> None:
    finish = end_of(handlers["count-primes"], a_context("count-primes", limit=100))

    assert finish.result == "25"


def test_every_example_is_python() -> None:
    for block in blocks():
        compile(block, "docs/handlers.md", "exec")
