"""Where the servers' programs are: named by a variable, or inside a wheel."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from devstack.process import DevstackError


def find_program(
    variable: str, named: str | None, *, package: str, path: str, outside: str
) -> Path:
    """The full path of a program.

    Args:
        variable: the environment variable that may name it.
        named: that variable's value; None: take the one from the wheel.
        package: top-level package that the wheel installs.
        path: of the program inside the package.
        outside: the variable that makes the program unnecessary.

    Raises:
        DevstackError: there is no such program. The text names the variables.
    """
    found = shutil.which(named) if named else _inside(package, path)
    if found is None:
        problem = f"{variable}={named} is no executable file" if named else f"{path} is missing"
        raise DevstackError(
            f"{problem}. Run `make setup`, or set {variable} to the program, "
            f"or set {outside} to a running server."
        )
    return Path(found).resolve()


def _inside(package: str, path: str) -> str | None:
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        if found := shutil.which(Path(folder, path)):
            return found
    return None
