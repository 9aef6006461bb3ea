"""The migrations in the project describe all of its models."""

from __future__ import annotations

import subprocess
import sys

from chronos_site import env
from chronos_site.config import StoreConfig
from tests.processes import MANAGE


def test_no_model_has_changed_without_a_migration(store_config: StoreConfig) -> None:
    command = [sys.executable, str(MANAGE), "makemigrations", "--check", "--dry-run"]
    environment = env.for_child(
        DJANGO_SETTINGS_MODULE="chronos_site.settings",
        MONGO_URI=store_config.uri,
        MONGO_DB=store_config.database,
    )

    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "No changes detected" in ended.stdout
    # Django only warns where it cannot ask the database which migrations were applied.
    assert "RuntimeWarning" not in ended.stderr
