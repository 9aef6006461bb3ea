"""Handlers that misbehave in ways we promise to survive, and one that leaves a trace."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from jobs.registry import Context, handler


@handler("test-record")
def record(context: Context) -> None:
    """Note start and end in the file `payload.file`, `payload.sleepMs` apart; see `tests.records`.

    With `payload.until` it goes on until there is a file of that name. With `payload.stubborn` the
    handler does not end early when it is cancelled; with `payload.exit` it takes the whole process
    down, as a crash in native code does.
    """
    _note(context, "start")
    seconds = context.payload.get("sleepMs", 0) / 1000
    if "until" in context.payload:
        end = Path(context.payload["until"])
        while not end.exists() and not context.cancelled.wait(0.02):
            pass
    if context.payload.get("stubborn"):
        time.sleep(seconds)
    else:
        context.cancelled.wait(seconds)
    if context.payload.get("exit"):
        os._exit(66)
    _note(context, "cancelled" if context.cancelled.is_set() else "end")


@handler("test-exit-in-process", in_process=True)
def exit_child(context: Context) -> None:
    """Take the child process down."""
    os._exit(66)


@handler("test-log-in-process", in_process=True)
def log_in_child(context: Context) -> None:
    """Log by several loggers, then do what `payload.then` says: nothing, die, or never end."""
    logging.getLogger("some.library").warning("attempt %d", context.attempt)
    thread = threading.Thread(target=context.logger.info, args=("from a thread",))
    thread.start()
    thread.join()
    context.logger.info("last words")
    match context.payload.get("then"):
        case "die":
            os._exit(66)
        case "block":
            time.sleep(600)


@handler("test-raise-in-process", in_process=True)
def raise_in_child(context: Context) -> None:
    """Fail as many handlers fail."""
    raise LookupError("no such invoice")


@handler("test-trace-in-process", in_process=True)
def trace_in_child(context: Context) -> None:
    """Make a span as code that knows OpenTelemetry does."""
    from opentelemetry import trace

    with trace.get_tracer("tests.project").start_as_current_span("look up"):
        context.logger.info("looking up")


@handler("test-imported")
def tell_imported(context: Context) -> list[str]:
    """Return which modules of OpenTelemetry this process has."""
    return sorted(name for name in sys.modules if name.partition(".")[0] == "opentelemetry")


@handler("test-pid-in-process", in_process=True)
def tell_pid(context: Context) -> int:
    """Return the process that the handler runs in."""
    return os.getpid()


@handler("test-block-in-process", in_process=True)
def block_child(context: Context) -> None:
    """Write the process's id to `payload.file`, then never end and heed nothing."""
    Path(context.payload["file"]).write_text(str(os.getpid()))
    while True:
        time.sleep(60)


@handler("test-needs-file")
def need_file(context: Context) -> str:
    """Return what the file `payload.file` holds; fail, with markup in the error, without it."""
    try:
        return Path(context.payload["file"]).read_text()
    except FileNotFoundError as exc:
        context.logger.warning("looked for it <b>once</b>")
        raise RuntimeError("<script>alert('no file')</script> is what the target said") from exc


@handler("test-sys-exit")
def sys_exit(context: Context) -> None:
    """Call sys.exit(), as code written for the command line does."""
    sys.exit("payload.ok is missing")


@handler("test-unserialisable")
def unserialisable(context: Context) -> Any:
    """Return something that JSON has no form for."""
    return {"when": object()}


def _note(context: Context, what: str) -> None:
    line = f"{context.job_id} {context.attempt} {os.getpid()} {time.time():.6f} {what}\n"
    # One short write in append mode: lines of several processes do not mix.
    with Path(context.payload["file"]).open("a") as file:
        file.write(line)
