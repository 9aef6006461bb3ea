"""Measures how long the pages take on a large store: `python -m tools.page_times`.

The tables in docs/benchmarks.md are what it prints. Each page is asked for over HTTP, as by a
browser, from one API process, by a superuser and by a member of one tenant; the first answer, with
empty caches of templates, is shown apart.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Final

import httpx

from tools.admin_server import MEMBER, PASSWORD, USER, admin_server, prepare_django

LIMIT_MS: Final = 200
"""Of 95 answers in a hundred."""
_ACCOUNTS: Final = (
    *("accounts", "members", "member-new", "users", "user-new", "groups", "group-new"),
)
_TOKEN: Final = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.page_times", description="Measures the pages on a large store."
    )
    parser.add_argument("--jobs", type=int, default=1_000_000, help="default: 1,000,000")
    parser.add_argument("--templates", type=int, default=10_000, help="default: 10,000")
    parser.add_argument("--times", type=int, default=20, help="each page; default: 20")
    options = parser.parse_args()
    prepare_django()
    with admin_server(jobs=options.jobs, templates=options.templates) as server:
        addresses = _addresses(server.scene)
        too_slow = _measure(server.url, USER, addresses, options.times)
        # The pages of accounts are not the member's, and ask nothing of the jobs.
        for name in _ACCOUNTS:
            del addresses[name]
        too_slow += _measure(server.url, MEMBER, addresses, options.times)
    if too_slow:
        sys.exit(f"over {LIMIT_MS} ms: {', '.join(too_slow)}")


def _addresses(scene: object) -> dict[str, str]:
    from tools.scene import TYPES, Scene
    from tools.tour import tour

    assert isinstance(scene, Scene)  # noqa: S101
    addresses = dict(tour(scene))
    del addresses["login"]
    jobs = addresses["jobs"]
    addresses["overview, 24h"] = f"{addresses['overview']}?range=24h"
    for status in ("pending", "retrying", "queued", "running", "completed", "dlq", "cancelled"):
        addresses[f"jobs, {status}"] = f"{jobs}?tab={status}"
    tenant = f"tenant={scene.tenant}"
    addresses["jobs by key"] = f"{jobs}?q=scene-7"
    addresses["jobs of a day"] = f"{jobs}?since={_ago(2)}&until={_ago(1)}"
    addresses["jobs of a tenant"] = f"{jobs}?{tenant}"
    addresses["jobs of a tenant and type"] = f"{jobs}?{tenant}&type={TYPES[0]}"
    addresses["jobs with a text in the error"] = f"{jobs}?error=invoice+7"
    addresses["jobs with an error that none has"] = f"{jobs}?error=nonesuch"
    addresses["jobs with a tag that none has"] = f"{jobs}?tag=nonesuch"
    addresses["dead letters of a tenant"] = f"{addresses['dead-letters']}?{tenant}"
    addresses["templates of a tenant"] = f"{addresses['templates']}?{tenant}"
    return addresses


def _ago(days: int) -> str:
    return f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%dT%H:%M:%S}"


def _measure(url: str, user: str, addresses: dict[str, str], times: int) -> list[str]:
    too_slow = []
    _say(f"\n| page, for {user} | first, ms | median, ms | p95, ms |\n|---|---|---|---|")
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        login = client.get("/admin/login/")
        [token] = _TOKEN.findall(login.text)[:1]
        fields = {"username": user, "password": PASSWORD, "csrfmiddlewaretoken": token}
        client.post("/admin/login/", data=fields)
        for name, address in addresses.items():
            taken = []
            for _ in range(times + 1):
                began = time.perf_counter()
                client.get(address).raise_for_status()
                taken.append((time.perf_counter() - began) * 1000)
            later = taken[1:]
            p95 = statistics.quantiles(later, n=20, method="inclusive")[-1]
            _say(f"| {name} | {taken[0]:.0f} | {statistics.median(later):.0f} | {p95:.0f} |")
            if p95 > LIMIT_MS:
                too_slow.append(f"{name} for {user}")
    return too_slow


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
