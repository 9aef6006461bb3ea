"""`manage.py`, before Django is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MANAGE = Path(__file__).resolve().parents[2] / "manage.py"


def test_without_django_it_says_how_to_get_it() -> None:
    # -S leaves out what is installed.
    command = [sys.executable, "-S", "-E", str(MANAGE), "check"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "make setup" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
