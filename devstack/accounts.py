"""Users of the admin for whoever tries the stack: the same names and passwords at each start."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from django.conf import settings

from devstack.demo import TENANT
from devstack.process import DevstackError

ACCOUNTS: Final = {
    "demo-admin": ("--superuser",),
    "demo-operator": ("--member", f"{TENANT}:operator"),
    "demo-viewer": ("--member", f"{TENANT}:viewer"),
}
"""Names, and what they may do."""
_TIMEOUT_SECONDS: Final = 180
"""Against hanging: three commands start at once, on a machine where the servers have just begun."""


def make_accounts(directory: Path, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Make the users, where they are missing.

    Args:
        directory: of the development servers' data; keeps the passwords.
        environment: of the `manage.py` commands; MongoDB answers and has been migrated.

    Returns:
        Their passwords, by name.

    Raises:
        DevstackError: one could not be made.
    """
    passwords = _passwords(directory / "passwords.json")
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: _make(name, passwords[name], environment), ACCOUNTS))
    return passwords


def _make(name: str, password: str, environment: Mapping[str, str]) -> None:
    manage = [sys.executable, str(settings.BASE_DIR / "manage.py")]
    try:
        made = subprocess.run(  # noqa: S603 (our own command)
            [*manage, "account", name, *ACCOUNTS[name], "--password-stdin"],
            env=environment,
            input=password,
            text=True,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise DevstackError(
            f"The user {name} could not be made: `account` took over {_TIMEOUT_SECONDS} s."
        ) from exc
    if made.returncode != 0:
        raise DevstackError(f"The user {name} could not be made. {made.stderr.strip()}")


def _passwords(file: Path) -> dict[str, str]:
    known: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    passwords = {name: known.get(name) or secrets.token_urlsafe(9) for name in ACCOUNTS}
    if passwords != known:
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
            json.dump(passwords, opened)
    return passwords
