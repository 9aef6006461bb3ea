"""`manage.py devstack`: everything that Chronos needs, in one terminal."""

from __future__ import annotations

import logging
import os
import signal
import time
from argparse import ArgumentParser
from types import FrameType
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from devstack.demo import Demo
from devstack.lock import only_one
from devstack.process import DevstackError
from devstack.stack import Stack, data_directory
from devstack.terminal import Terminal
from jobs.errors import ChronosError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ECHO_SECONDS: Final = 0.5
"""One Ctrl-C may arrive twice, from the terminal and from `make` or `timeout`."""


class Command(BaseCommand):
    help = (
        "Start MongoDB, Kafka, etcd (or Redis: LEADER_BACKEND), the API, two schedulers, an "
        "executor and a reaper. Ctrl-C stops them in good order and exits with 0; a second Ctrl-C "
        "ends them at once."
    )
    # They would ask a MongoDB that does not run yet.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--demo", action="store_true", help="submit jobs and watch them run")
        parser.add_argument(
            "--exit", action="store_true", help="stop after the demo; 0: all jobs ended as meant"
        )
        parser.add_argument(
            "--servers-only", action="store_true", help="start no roles, print what to export"
        )

    def handle(self, **options: Any) -> None:
        if options["exit"] and not options["demo"]:
            raise CommandError("--exit means: after the demo. Add --demo.")
        if options["demo"] and options["servers_only"]:
            raise CommandError("--demo needs the roles. Leave out --servers-only.")
        try:
            with only_one(data_directory(settings.ENV)):
                self._run(Terminal(), options)
        except ChronosError as exc:
            raise CommandError(str(exc)) from exc

    def _run(self, terminal: Terminal, options: dict[str, Any]) -> None:
        for number in SIGNALS:
            signal.signal(number, _interrupt)
        # One line for each look at whether something answers is too many.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        stack = Stack(settings.ENV, terminal)
        try:
            stack.check(with_roles=not options["servers_only"])
            stack.start_servers()
            if options["servers_only"]:
                for name, value in stack.exports.items():
                    self.stdout.write(f'export {name}="{value}"')
                terminal.say("On one machine give each role a METRICS_PORT of its own.")
            else:
                stack.start_roles()
                if options["demo"]:
                    _demo(stack, terminal, is_final=options["exit"])
                _show_urls(stack, terminal)
            if not options["exit"]:
                terminal.say("Ctrl-C stops everything.")
                signal.pause()
        except KeyboardInterrupt as exc:
            if options["exit"]:
                raise CommandError("Stopped before the demo was over.", returncode=130) from exc
        finally:
            _stop_only_once()
            terminal.say("stopping")
            stack.stop()
            terminal.say("stopped")


def _demo(stack: Stack, terminal: Terminal, *, is_final: bool) -> None:
    try:
        Demo(stack.api_url, terminal).run()
    except DevstackError as exc:
        if is_final:
            raise
        terminal.say(str(exc))


def _show_urls(stack: Stack, terminal: Terminal) -> None:
    terminal.say(f"API      {stack.api_url}\ndocs     {stack.api_url}/docs")
    terminal.say(f"admin    {stack.api_url}/admin/")
    for name, password in stack.passwords.items():
        terminal.say(f"login    {name}  password {password}")
    for role in stack.roles:
        terminal.say(f"metrics  {stack.metrics_url(role)}/metrics  ({role.name})")


def _interrupt(number: int, frame: FrameType | None) -> None:
    _stop_only_once()
    raise KeyboardInterrupt


def _stop_only_once() -> None:
    """From now on only another Ctrl-C counts: it ends this process, and with it every child."""
    since = time.monotonic()

    def insist(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and time.monotonic() - since > ECHO_SECONDS:
            os._exit(128 + number)

    for number in SIGNALS:
        signal.signal(number, insist)
