"""A child process for handlers that must be killable or keep a core busy."""

from __future__ import annotations

import logging
import multiprocessing
import signal
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from datetime import datetime
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from threading import Event
from typing import Any

import django
from django.conf import settings

from executor.calls import AttemptError, BadPayload, call, context_for, describe
from executor.logs import Catcher, Take
from jobs import origin
from jobs.executions import LogLine, execution_id
from jobs.lifecycle import Job
from jobs.logs.fields import attempting
from jobs.logs.process import identify, identity
from jobs.registry import Fail, Retry, Snooze, handlers
from jobs.tracing import tracer

# Handlers may have started threads in the parent; a fork would copy their locks.
_SPAWN = multiprocessing.get_context("spawn")
_LOOK_SECONDS = 0.1
_LINE = "line"


class HandlerDied(AttemptError):
    """The child process ended in the middle of an attempt."""


class RemoteError(AttemptError):
    """An exception in the child; the text names it."""


class Child:
    """One process that runs one attempt at a time, kept from attempt to attempt."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._pipe: Connection[Any, Any] | None = None

    def prepare(self) -> None:
        """Have the process ready, so that its start does not count as the handler's time.

        What goes wrong here shows in `run`.
        """
        with suppress(EOFError, OSError):
            self._connected()

    def run(self, job: Job, started_at: datetime, cancelled: Event, take: Take) -> str | None:
        """Run an attempt in the child; kill it when `cancelled` is set.

        Args:
            job: as it was claimed.
            started_at: when the handler starts, aware UTC.
            cancelled: looked at all the time.
            take: given the lines that the handler logs.

        Raises:
            HandlerDied: the process ended, by itself or because the attempt was cancelled.
            RemoteError, Retry, Fail, Snooze: what the handler raised.
        """
        try:
            pipe = self._connected()
            pipe.send((job, started_at, origin.current()))
            kind, value = self._answer(pipe, cancelled, take)
        except (EOFError, OSError) as exc:
            code = self.close()
            raise HandlerDied(f"the handler's process ended with exit code {code}") from exc
        match kind:
            case "result":
                return None if value is None else str(value)
            case "retry":
                raise Retry(value[0], after=value[1])
            case "fail":
                raise Fail(value)
            case "snooze":
                raise Snooze(value)
            case _:
                raise RemoteError(value)

    def _answer(self, pipe: Connection[Any, Any], cancelled: Event, take: Take) -> tuple[str, Any]:
        while not cancelled.is_set():
            if pipe.poll(_LOOK_SECONDS):
                kind, value = pipe.recv()
                if kind != _LINE:
                    return kind, value
                take(value)
        self._kill()
        with suppress(EOFError, OSError):
            # What it logged before is still in the pipe.
            while pipe.poll():
                kind, value = pipe.recv()
                if kind == _LINE:
                    take(value)
        self.close()
        raise HandlerDied("killed: cancelled, timed out or taken away")

    def _connected(self) -> Connection[Any, Any]:
        if self._pipe is None or self._process is None or not self._process.is_alive():
            self.close()
            ours, theirs = _SPAWN.Pipe()
            self._process = _SPAWN.Process(
                target=_serve, args=(theirs, dict(identity())), daemon=True
            )
            self._process.start()
            theirs.close()
            self._pipe = ours
            self._pipe.recv()
        return self._pipe

    def close(self) -> int | None:
        """Kill the process; its exit code, None when there was none."""
        code = None
        if self._process is not None:
            self._process.join(_LOOK_SECONDS)
            code = self._kill()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None
        return code

    def _kill(self) -> int | None:
        if self._process is None:
            return None
        self._process.kill()
        self._process.join()
        return self._process.exitcode


def _serve(pipe: Connection[Any, Any], parent: Mapping[str, str]) -> None:
    # Ctrl-C and service managers signal the whole group. Only the parent decides when this ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    django.setup()
    identify(parent["role"], parent["process"])
    tracer.start(settings.CHRONOS.tracing, parent["role"], parent["process"])
    known = handlers()
    catcher = Catcher()
    logging.getLogger().addHandler(catcher)

    def take(line: LogLine) -> None:
        # At once, so that what is logged just before a crash arrives as well.
        pipe.send((_LINE, line))

    # The parent may be gone at any moment.
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        pipe.send("ready")
        while True:
            job, started_at, by = pipe.recv()
            with ExitStack() as scope:
                scope.enter_context(attempting(job))
                scope.enter_context(origin.acting_for(by))
                scope.enter_context(tracer.joining(by.traceparent))
                scope.enter_context(
                    catcher.catching(execution_id(job.id, job.claim_id or ""), take)
                )
                answer = _attempt(known, job, started_at)
            pipe.send(answer)


def _attempt(known: Any, job: Job, started_at: datetime) -> tuple[str, Any]:
    try:
        context = context_for(job, started_at, Event())
        return "result", call(known[job.job_type].function, context)
    except Retry as exc:
        return "retry", (describe(exc), exc.after)
    except (Fail, BadPayload) as exc:
        return "fail", describe(exc)
    except Snooze as exc:
        return "snooze", exc.until
    except BaseException as exc:  # noqa: BLE001 - as in `calls.conclude`
        return "error", describe(exc)
