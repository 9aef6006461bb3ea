"""What development needs and production must not have: unless the operator says otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography.fernet import Fernet

from chronos_site import env

LOOPBACK: Final = "127.0.0.0/8,::1/128"


def development_settings(directory: Path) -> dict[str, str]:
    """Variables for the roles, without those that are set.

    HTTP deliveries may reach this machine, and secrets can be kept: with a key that is made once
    and stays in the data directory.

    Args:
        directory: of the development servers' data.
    """
    made: dict[str, Callable[[], str]] = {
        "DELIVERY_ALLOWED_NETWORKS": lambda: LOOPBACK,
        "ENCRYPTION_KEYS": lambda: _key(directory / "encryption.key"),
    }
    return {name: make() for name, make in made.items() if not env.is_set(name)}


def _key(file: Path) -> str:
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(Fernet.generate_key())
    return file.read_text()
