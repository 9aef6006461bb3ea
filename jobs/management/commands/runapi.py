"""Serve the HTTP API."""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from chronos_site import env
from jobs import arguments
from jobs.api.server import Server, listen
from jobs.errors import ChronosError, StoreRefused, StoreUnavailable
from jobs.logs import events
from jobs.logs.process import identify
from jobs.registry import handlers
from jobs.repository import Repository

if TYPE_CHECKING:
    from chronos_site.config import Config

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Serve the HTTP API on API_PORT, its probes on METRICS_PORT."
    # What they find of the handlers is said in one sentence here.
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--workers", type=arguments.count, default=1, help="processes; default: 1"
        )
        parser.add_argument(
            "--threads",
            type=arguments.count,
            default=16,
            help="requests at once per process; default: 16",
        )
        parser.add_argument("--metrics-directory", help=argparse.SUPPRESS)

    def handle(self, **options: Any) -> None:
        workers, directory = options["workers"], options["metrics_directory"]
        if workers > 1 and directory is None:
            _restart_with_shared_metrics()
        config: Config = settings.CHRONOS
        identify("api", f"api-{socket.gethostname()}-{os.getpid()}")
        try:
            handlers()
            _check_store(config)
            listen(config.listen.metrics_host, config.listen.metrics_port, "METRICS").close()
            listener = listen(config.listen.api_host, config.listen.api_port, "API")
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc
        server = Server(
            listener,
            (config.listen.metrics_host, config.listen.metrics_port),
            workers=workers,
            threads=options["threads"],
            drain_timeout=config.executor.drain_timeout,
            metrics_directory=directory,
        )
        logger.info(
            "the API listens on http://%s:%d, probes on port %d",
            config.listen.api_host,
            config.listen.api_port,
            config.listen.metrics_port,
            extra=events.API_STARTED(),
        )
        server.run()  # type: ignore[no-untyped-call]


def _restart_with_shared_metrics() -> None:
    # prometheus_client adds up the metrics of several processes only where this variable is set
    # before it is imported.
    directory = tempfile.mkdtemp(prefix="chronos-api-metrics-")
    arguments = [*sys.orig_argv, "--metrics-directory", directory]
    os.execve(sys.executable, arguments, env.for_child(PROMETHEUS_MULTIPROC_DIR=directory))  # noqa: S606


def _check_store(config: Config) -> None:
    repository = Repository.connect(config.store)
    try:
        repository.require_indexes()
    except StoreRefused:
        raise
    except StoreUnavailable as exc:
        # It may come: until then requests are answered with 503.
        extra = events.API_WITHOUT_STORE(error=exc)
        logger.warning("starting without the store: %s", exc, extra=extra)
    finally:
        repository.close()
