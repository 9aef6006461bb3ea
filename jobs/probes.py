"""`/metrics`, `/healthz` and `/readyz` on a port of their own, apart from job traffic."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import REGISTRY, make_wsgi_app
from prometheus_client.registry import CollectorRegistry

from jobs.errors import ConfigError
from jobs.logs import events

logger = logging.getLogger(__name__)

Readiness = Callable[[], tuple[bool, str]]
"""Whether the role can do its work, and a sentence about it."""


def cannot_listen(
    error: OSError | UnicodeError, host: str, port: int, listener: str
) -> ConfigError:
    """The sentence for an address that cannot be listened on.

    Args:
        error: why.
        host, port: where.
        listener: `API` or `METRICS`: how the names of the two variables begin.
    """
    if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES):
        remedy = f"Set {listener}_PORT to a free port."
    else:
        remedy = f"Set {listener}_HOST to an address of this machine."
    # `create_server` appends the address to the system's words.
    reason = str(getattr(error, "strerror", error)).partition(" (while")[0]
    return ConfigError(f"cannot listen on {host}:{port} ({reason}). {remedy}")


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    # Without it a second role on a taken port would start and share its probes.
    allow_reuse_port = False


class _Handler(WSGIRequestHandler):
    timeout = 10

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args, extra=events.PROBE_ANSWERED())


class Probes:
    """A small HTTP server in a thread."""

    def __init__(
        self, host: str, port: int, ready: Readiness, registry: CollectorRegistry = REGISTRY
    ) -> None:
        """Start answering.

        Args:
            host: address to listen on.
            port: 0 takes any free one; see `port`.
            ready: asked at each `/readyz`; must answer within seconds.
            registry: what `/metrics` shows.

        Raises:
            ConfigError: it cannot listen there.
        """
        self._ready = ready
        self._metrics = make_wsgi_app(registry)
        try:
            self._server = make_server(host, port, self._app, _Server, _Handler)
        except (OSError, UnicodeError) as exc:
            raise cannot_listen(exc, host, port, "METRICS") from exc
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="probes"
        )
        self._thread.daemon = True
        self._thread.start()

    def _app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match environ["PATH_INFO"]:
            case "/metrics":
                metrics: Iterable[bytes] = self._metrics(environ, start_response)
                return metrics
            case "/healthz":
                status, text = "200 OK", "ok"
            case "/readyz":
                is_ready, text = self._ready()
                status = "200 OK" if is_ready else "503 Service Unavailable"
            case _:
                status, text = "404 Not Found", "try /metrics, /healthz or /readyz"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [text.encode()]

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
