"""gunicorn around the API: the processes that answer HTTP, and their probes."""

from __future__ import annotations

import errno
import html
import json
import logging
import shutil
import socket
import struct
import sys
import threading
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from gunicorn import glogging, util
from gunicorn.app.base import BaseApplication
from gunicorn.http import errors as http_errors
from gunicorn.workers.gthread import ThreadWorker
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from jobs import services
from jobs.errors import ChronosError, ConfigError
from jobs.logs import events
from jobs.logs.process import identity
from jobs.metrics import STARTED
from jobs.probes import Probes, cannot_listen
from jobs.tracing import tracer

logger = logging.getLogger(__name__)

_READ_TIMEOUT_SECONDS: Final = 10
_BACKLOG: Final = 2048
_MALFORMED: Final = {
    http_errors.LimitRequestLine: (414, "the request line is too long"),
    http_errors.LimitRequestHeaders: (431, "the headers are too long or too many"),
    http_errors.UnsupportedTransferCoding: (501, "this transfer coding is not supported"),
    http_errors.ExpectationFailed: (417, "this expectation cannot be met"),
}
# For people, whose browser would show them JSON.
_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head><title>Bad request | Chronos</title></head>
<body>
<h1>Bad request</h1>
<p>The request cannot be read: {}. Nothing was done. Where you typed or filtered by something very
long, go back and make it shorter.</p>
<p><a href="/admin/">Go to the overview</a></p>
</body>
</html>
"""


def listen(host: str, port: int, name: str) -> socket.socket:
    """A listening socket.

    Args:
        host, port: where.
        name: `API` or `METRICS`: how the names of their variables begin.

    Raises:
        ConfigError: it cannot listen there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as exc:
        raise cannot_listen(exc, host, port, name) from exc
    # Clients that send nothing, or nothing more, must not keep all threads: a connection is taken
    # when its first bytes are there, and inherits a limit to the wait for the next.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, _READ_TIMEOUT_SECONDS)
    limit = struct.pack("ll", _READ_TIMEOUT_SECONDS, 0)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    return listener


class Server(BaseApplication):
    """The API's processes. `run` returns by SystemExit, after SIGTERM or SIGINT."""

    def __init__(
        self,
        listener: socket.socket,
        probes_at: tuple[str, int],
        *,
        workers: int,
        threads: int,
        drain_timeout: timedelta,
        metrics_directory: str | None,
    ) -> None:
        """
        Args:
            listener: from `listen`.
            probes_at: host and port of /metrics, /healthz and /readyz.
            workers: processes.
            threads: requests that one process answers at once.
            drain_timeout: what requests may still take after SIGTERM.
            metrics_directory: where several processes add up their metrics; None with one.
        """
        self._listener = listener
        self._probes_at = probes_at
        self._probes: Probes | None = None
        self._metrics_directory = metrics_directory
        self._options = {
            "bind": f"fd://{listener.fileno()}",
            "worker_class": Worker,
            "workers": workers,
            "threads": threads,
            "keepalive": 75,
            # Room for a tenant, a tag and a cursor that are all percent-encoded.
            "limit_request_line": 8190,
            "worker_connections": 2000,
            "graceful_timeout": int(drain_timeout.total_seconds()),
            "logger_class": Logger,
            "control_socket_disable": True,
            "post_worker_init": self._begin,
            "worker_exit": self._close,
            "child_exit": self._forget_metrics,
            "on_exit": self._end,
        }
        super().__init__()  # type: ignore[no-untyped-call]

    def load_config(self) -> None:
        config: Any = self.cfg
        for name, value in self._options.items():
            config.set(name, value)

    def load(self) -> Any:
        return get_wsgi_application()

    def _begin(self, worker: ThreadWorker) -> None:
        # Here and not before: threads do not survive the fork.
        tracer.start(settings.CHRONOS.tracing, "api", identity()["process"])
        STARTED.set_to_current_time()
        self._start_probes()

    def _start_probes(self) -> None:
        registry = REGISTRY
        if self._metrics_directory is not None:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, self._metrics_directory)  # type: ignore[no-untyped-call]
        try:
            self._probes = Probes(*self._probes_at, _ready, registry)
        except ConfigError as exc:
            # Of several workers the first answers for all.
            logger.debug("no probes in this worker: %s", exc, extra=events.PROBES_SHARED(error=exc))

    def _close(self, arbiter: Any, worker: ThreadWorker) -> None:
        if self._probes is not None:
            self._probes.close()
        services.default().repository.close()
        tracer.stop()

    def _forget_metrics(self, arbiter: Any, worker: ThreadWorker) -> None:
        if self._metrics_directory is not None:
            mark_process_dead(worker.pid, self._metrics_directory)  # type: ignore[no-untyped-call]

    def _end(self, arbiter: Any) -> None:
        if self._metrics_directory is not None:
            shutil.rmtree(self._metrics_directory, ignore_errors=True)
        logger.info("the API has stopped", extra=events.ROLE_STOPPED())


class Worker(ThreadWorker):
    """A gunicorn worker whose own errors are JSON too, and below /admin/ pages."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)  # type: ignore[no-untyped-call]
        self._thread = threading.local()

    def handle(self, conn: Any) -> Any:
        # What cannot be parsed is gone when `handle_error` is told.
        self._thread.is_page = _begins_page(conn.sock)
        return super().handle(conn)  # type: ignore[no-untyped-call]

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        status, problem = 400, "the request is not well-formed HTTP"
        if type(exc) in _MALFORMED:
            status, problem = _MALFORMED[type(exc)]
        elif not isinstance(exc, http_errors.ParseException):
            logger.error("an error outside Django", exc_info=exc, extra=events.REQUEST_FAILED())
            status, problem = 500, "internal error; the server's log has the details"
        content_type, body = "application/json", json.dumps({"error": problem})
        if self._thread.is_page:
            content_type, body = "text/html; charset=utf-8", _PAGE.format(html.escape(problem))
        head = (
            f"HTTP/1.1 {status} Error\r\nConnection: close\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            util.write_nonblock(client, (head + body).encode())  # type: ignore[no-untyped-call]
        except OSError:
            logger.debug("a client left before its error", extra=events.CLIENT_GONE())


class Logger(glogging.Logger):
    """gunicorn's messages, sent where all others go."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)  # type: ignore[no-untyped-call]
        for log in (self.error_log, self.access_log):
            log.handlers.clear()
            log.propagate = True
            log.setLevel(logging.WARNING)

    def exception(self, msg: str, *args: Any, **kwargs: Any) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, OSError) and error.errno == errno.EAGAIN:
            logger.info(
                "closed a connection that sent nothing for %d s",
                _READ_TIMEOUT_SECONDS,
                extra=events.CLIENT_SILENT(),
            )
        else:
            super().exception(msg, *args, **kwargs)  # type: ignore[no-untyped-call]


def _begins_page(client: socket.socket) -> bool:
    """Whether a request that is about to be read is one of a person."""
    try:
        begin = client.recv(32, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        # Nothing has come yet, or nothing will: not for here to say.
        return False
    return begin.partition(b" ")[2].startswith(b"/admin/")


def _ready() -> tuple[bool, str]:
    try:
        services.default().repository.ping()
    except ChronosError as exc:
        return False, str(exc)
    return True, "ready"
