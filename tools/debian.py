"""Programs that no wheel has: where they are, and Debian's packages where they are missing.

python -m tools.debian chromium prometheus promtool     # installs what is missing of these
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chronos_site import env
from devstack.process import DevstackError


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and the package that has it.

    `variable` names one that is elsewhere; None: there is none.
    """

    names: tuple[str, ...]
    package: str
    variable: str | None = None

    @property
    def advice(self) -> str:
        """What a person can do who lacks it."""
        other = f", or set {self.variable} to it" if self.variable else ""
        return f"No {self.names[0]} was found: install Debian's package {self.package}{other}."


PROGRAMS: Final[Mapping[str, Program]] = {
    "chromium": Program(
        ("chromium", "chromium-browser", "google-chrome"), "chromium", "CHROMIUM_BIN"
    ),
    "prometheus": Program(("prometheus",), "prometheus", "PROMETHEUS_BIN"),
    "promtool": Program(("promtool",), "prometheus", "PROMTOOL_BIN"),
}


def find(name: str) -> str:
    """The full path of a program.

    Args:
        name: a key of `PROGRAMS`.

    Raises:
        DevstackError: there is none. The text says what to install.
    """
    program = PROGRAMS[name]
    named = program.variable and env.read()[program.variable]
    for each in (named,) if named else program.names:
        if found := shutil.which(each):
            return found
    if named:
        raise DevstackError(f"{program.variable}={named} is no executable file.")
    raise DevstackError(program.advice)


def install(names: Sequence[str]) -> None:
    """Install the packages of those that are missing, where this user may.

    Raises:
        DevstackError: one of them cannot be installed here.
    """
    missing = [name for name in names if not _is_there(name)]
    if not missing:
        return
    packages = sorted({PROGRAMS[name].package for name in missing})
    as_root = _prefix_for_root()
    if as_root is None or shutil.which("apt-get") is None:
        raise DevstackError(PROGRAMS[missing[0]].advice)
    for step in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        command = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", *step]
        if subprocess.run(command, check=False).returncode != 0:  # noqa: S603 (our own words)
            advice = " ".join(PROGRAMS[name].advice for name in missing)
            raise DevstackError(f"`apt-get {' '.join(step)}` failed. {advice}")


def _is_there(name: str) -> bool:
    variable = PROGRAMS[name].variable
    if variable and env.is_set(variable):
        # What a person names is not to be replaced by another one.
        find(name)
        return True
    return any(shutil.which(each) for each in PROGRAMS[name].names)


def _prefix_for_root() -> Sequence[str] | None:
    if os.geteuid() == 0:
        return []
    asks_nothing = ["sudo", "-n"]
    if shutil.which("sudo") is None:
        return None
    allowed = subprocess.run([*asks_nothing, "true"], check=False, capture_output=True)  # noqa: S603
    return asks_nothing if allowed.returncode == 0 else None


def main() -> None:
    try:
        install(sys.argv[1:])
    except DevstackError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    main()
