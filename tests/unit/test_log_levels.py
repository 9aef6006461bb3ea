"""What the log may hold."""

from __future__ import annotations

import subprocess
import sys

from django.conf import settings

from chronos_site import env

PROGRAM = """
import django, logging
django.setup()
for name in ("jobs", "pymongo.command"):
    print(name, logging.getLogger(name).isEnabledFor(logging.DEBUG))
"""


def test_on_debug_the_driver_still_writes_down_no_commands() -> None:
    environment = env.for_child(LOG_LEVEL="DEBUG", DJANGO_SETTINGS_MODULE="chronos_site.settings")

    output = subprocess.check_output(
        [sys.executable, "-c", PROGRAM], cwd=settings.BASE_DIR, env=environment, text=True
    )

    assert output.splitlines() == ["jobs True", "pymongo.command False"]
