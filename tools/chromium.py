"""The browser of the tests and the screenshots: Debian's chromium, driven by playwright.

python -m tools.chromium        # says where it is, and installs it where it is missing
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from django.conf import settings
from playwright.sync_api import Browser, sync_playwright

from devstack.process import DevstackError

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_PACKAGE: Final = "chromium"
_ADVICE: Final = (
    f"No chromium was found: install Debian's package {_PACKAGE}, or set CHROMIUM_BIN to a chromium"
    " or Chrome."
)
# It is to talk to the pages alone, not to its maker's hosts.
_QUIET: Final = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


def find_chromium() -> str:
    """The full path of a browser.

    Raises:
        DevstackError: there is none. The text says what to install.
    """
    named = settings.ENV["CHROMIUM_BIN"]
    for name in (named,) if named else _NAMES:
        if found := shutil.which(name):
            return found
    if named:
        raise DevstackError(f"CHROMIUM_BIN={named} is no executable file.")
    raise DevstackError(_ADVICE)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser of its own, without any profile."""
    program = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=_QUIET, chromium_sandbox=os.geteuid() != 0
        )
        try:
            yield browser
        finally:
            browser.close()


def install() -> None:
    """Install Debian's package, where this user may.

    Raises:
        DevstackError: it cannot be installed here.
    """
    as_root = _prefix_for_root()
    if as_root is None or shutil.which("apt-get") is None:
        raise DevstackError(_ADVICE)
    for step in (["update"], ["install", "-y", "--no-install-recommends", _PACKAGE]):
        command = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", *step]
        if subprocess.run(command, check=False).returncode != 0:  # noqa: S603 (our own words)
            raise DevstackError(f"`apt-get {' '.join(step)}` failed. {_ADVICE}")


def _prefix_for_root() -> Sequence[str] | None:
    if os.geteuid() == 0:
        return []
    asks_nothing = ["sudo", "-n"]
    if shutil.which("sudo") is None:
        return None
    allowed = subprocess.run([*asks_nothing, "true"], check=False, capture_output=True)  # noqa: S603
    return asks_nothing if allowed.returncode == 0 else None


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronos_site.settings")
    try:
        try:
            find_chromium()
        except DevstackError:
            if settings.ENV["CHROMIUM_BIN"]:
                raise
            install()
            find_chromium()
    except DevstackError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    main()
