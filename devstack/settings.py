"""What development needs and production must not have: unless the operator says otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography.fernet import Fernet
from django.core.management.utils import get_random_secret_key

from chronos_site import env

LOOPBACK: Final = "127.0.0.0/8,::1/128"


def development_settings(directory: Path) -> dict[str, str]:
    """Variables for the roles, without those that are set.

    HTTP deliveries may reach this machine, secrets can be kept, and whoever is logged in stays so
    over a restart: by keys that are made once and stay in the data directory. Logs are for a
    terminal.

    Args:
        directory: of the development servers' data.
    """
    made: dict[str, Callable[[], str]] = {
        "DELIVERY_ALLOWED_NETWORKS": lambda: LOOPBACK,
        "ENCRYPTION_KEYS": lambda: _kept(
            directory / "encryption.key", lambda: Fernet.generate_key().decode()
        ),
        "SECRET_KEY": lambda: _kept(directory / "secret.key", get_random_secret_key),
        "LOG_FORMAT": lambda: "text",
    }
    return {name: make() for name, make in made.items() if not env.is_set(name)}


def _kept(file: Path, make: Callable[[], str]) -> str:
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(make())
    return file.read_text()
