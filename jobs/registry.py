"""Handlers: how a project names the functions that run its jobs, and what they receive.

A handler is a plain function in an installed app's `handlers.py`::

    from jobs.registry import Context, Fail, handler

    @handler("send-invoice")
    def send_invoice(context: Context) -> None:
        if "invoiceId" not in context.payload:
            raise Fail("payload.invoiceId is missing")
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from logging import LoggerAdapter
from typing import Any

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from jobs.delivery.config import DELIVERY_TYPES
from jobs.errors import ConfigError
from jobs.messages import JOB_TYPE


class Retry(Exception):
    """Raised by a handler: this attempt failed, try again.

    Args:
        reason: kept as the attempt's error.
        after: how long from now, at once when negative; None: by the job's retry policy.
    """

    def __init__(
        self, reason: str = "the handler asked for a retry", after: timedelta | None = None
    ):
        super().__init__(reason)
        if not isinstance(after, timedelta | None):
            raise TypeError(f"Retry(after=...) needs a timedelta, not {after!r}")
        self.after = None if after is None else max(after, timedelta(0))


class Fail(Exception):
    """Raised by a handler: no further attempt can succeed. The job becomes a dead letter."""


class Snooze(Exception):
    """Raised by a handler: not now. The job is due again at `until`; costs no attempt."""

    def __init__(self, until: datetime):
        super().__init__(f"snoozed until {until}")
        if not isinstance(until, datetime) or until.tzinfo is None:
            raise ValueError("Snooze(until=...) needs an aware datetime, such as one in UTC")
        self.until = until.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Context:
    """What a handler knows of the attempt that it makes."""

    job_id: str
    tenant_id: str
    job_type: str
    attempt: int
    """1 for the first."""
    max_attempts: int
    payload: dict[str, Any]
    logger: LoggerAdapter[Any]
    deadline: datetime | None = None
    """When the attempt is given up (`timeoutSeconds`)."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when the job was cancelled, timed out or taken away: stop, nothing will be kept."""
    request_id: str | None = None
    """Of the request that made the job, to be sent on as `X-Request-Id`."""
    traceparent: str | None = None
    """Of the trace that the attempt is part of, to be sent on under this name."""


HandlerFunction = Callable[[Context], Any]


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered function."""

    name: str
    function: HandlerFunction
    in_process: bool
    """Run in a child process: for work that keeps a core busy or must be killable."""


_handlers: dict[str, Handler] = {}
# Calling one of these runs nothing of it, and every attempt would count as completed.
_OTHER_KINDS = (
    inspect.iscoroutinefunction,
    inspect.isasyncgenfunction,
    inspect.isgeneratorfunction,
)


def handler(name: str, *, in_process: bool = False) -> Callable[[HandlerFunction], HandlerFunction]:
    """Register a function as the handler of a job type.

    Args:
        name: the job type; letters, digits, dot, dash and underscore.
        in_process: run each attempt in a child process.

    Raises:
        ConfigError: the name cannot be used or is taken, or what it names is no plain function.
    """
    if not JOB_TYPE.fullmatch(name):
        raise ConfigError(
            f"handler {name!r}: job types have 1 to 200 letters, digits, dots, dashes, underscores."
        )
    if name in DELIVERY_TYPES:
        raise ConfigError(f"handler {name!r}: the name is taken by the built-in delivery.")

    def register(function: HandlerFunction) -> HandlerFunction:
        if any(is_other_kind(function) for is_other_kind in _OTHER_KINDS):
            raise ConfigError(
                f"handler {name!r}: must be a plain function, without `async` and `yield`."
            )
        known = _handlers.get(name)
        if known is not None and known.function.__module__ != function.__module__:
            raise ConfigError(
                f"handler {name!r} is registered in {known.function.__module__} and in"
                f" {function.__module__}. Rename one."
            )
        _handlers[name] = Handler(name, function, in_process)
        return function

    return register


def handlers() -> Mapping[str, Handler]:
    """All handlers of the installed apps, by job type.

    Raises:
        ConfigError: a `handlers.py` cannot be imported, or registers what cannot be used.
    """
    for app in apps.get_app_configs():
        if app.module is not None and module_has_submodule(app.module, "handlers"):
            _load(f"{app.name}.handlers")
    return dict(_handlers)


def _load(module: str) -> None:
    try:
        import_module(module)
    except ConfigError as exc:
        raise ConfigError(f"{module} cannot be used: {exc}") from exc
    except Exception as exc:
        raise ConfigError(f"{module} cannot be imported: {type(exc).__name__}: {exc}") from exc


def known_types() -> frozenset[str]:
    """The job types that can be run. Raises ConfigError as `handlers` does."""
    return DELIVERY_TYPES | handlers().keys()
