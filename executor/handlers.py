"""The built-in handlers: for trying out, for demos and for load tests."""

from __future__ import annotations

import random
from typing import Any

from jobs.registry import Context, Fail, handler


@handler("noop")
def noop(context: Context) -> None:
    """Do nothing."""


@handler("log-message")
def log_message(context: Context) -> None:
    """Write `payload.message` to the log."""
    message = context.payload.get("message")
    if not isinstance(message, str):
        raise Fail("payload.message must be a text")
    context.logger.info("%s", message)


@handler("flaky")
def flaky(context: Context) -> None:
    """Fail at random, to exercise retries and dead letters.

    `payload.failRate` (0 to 1, default 0.5) is the chance of each attempt to fail;
    `payload.failTimes` instead makes the first so many attempts fail.
    """
    fail_times = context.payload.get("failTimes")
    if fail_times is not None:
        if _number(fail_times, "failTimes") >= context.attempt:
            raise RuntimeError(f"failing attempt {context.attempt}, as payload.failTimes asks")
        return
    rate = _number(context.payload.get("failRate", 0.5), "failRate")
    if not 0 <= rate <= 1:
        raise Fail("payload.failRate must be from 0 to 1")
    if random.random() < rate:  # noqa: S311 - chance, not secrecy
        raise RuntimeError(f"failing at random, as payload.failRate {rate:g} asks")


@handler("slow")
def slow(context: Context) -> None:
    """Take `payload.sleepMs` milliseconds (default 1000), ending early when cancelled."""
    milliseconds = _number(context.payload.get("sleepMs", 1000), "sleepMs")
    if milliseconds < 0:
        raise Fail("payload.sleepMs must not be negative")
    context.cancelled.wait(milliseconds / 1000)


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Fail(f"payload.{name} must be a number")
    return value
