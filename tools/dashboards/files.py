"""Which dashboards there are, and the files that Grafana reads them from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.dashboards.api import API
from tools.dashboards.executor import EXECUTOR
from tools.dashboards.fanout import FANOUT
from tools.dashboards.overview import OVERVIEW
from tools.dashboards.reaper import REAPER
from tools.dashboards.scheduler import SCHEDULER

DASHBOARDS: Final = (OVERVIEW, API, SCHEDULER, FANOUT, EXECUTOR, REAPER)
FOLDER: Final = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "dashboards"


def files() -> Mapping[Path, str]:
    """What each file has to hold."""
    return {
        FOLDER / f"{board.name}.json": json.dumps(board.document(), indent=2) + "\n"
        for board in DASHBOARDS
    }
