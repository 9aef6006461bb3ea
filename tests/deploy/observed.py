"""A whole stack that has seen jobs of all sorts, and a Prometheus that watches it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx

from chronos_site.env import BrokerConfig, StoreConfig
from devstack.settings import LOOPBACK
from jobs import registry
from jobs.broker.topics import ensure_topics, topics_for
from jobs.repository import Repository
from tests.builders import NOW, a_job, a_template
from tests.monitoring import Watcher
from tests.processes import RoleProcess, environment_for
from tests.waiting import wait_for

_PATIENCE: Final = timedelta(seconds=60)
_SHORT: Final = {
    "LEADER_TTL": "2s",
    "REAPER_INTERVAL": "500ms",
    "KAFKA_SESSION_TIMEOUT": "2s",
    "DELIVERY_ALLOWED_NETWORKS": LOOPBACK,
}
_SEEN: Final = (
    'rate(executor_jobs_total{job_type="noop", result="completed"}[1m]) > 0',
    'rate(executor_jobs_total{job_type="flaky", result="failed"}[1m]) > 0',
    'rate(executor_jobs_total{job_type="http", result="completed"}[1m]) > 0',
    'jobs_by_status{status="dlq"} > 0',
    'jobs_due{job_type="nobody-serves-this"} > 0',
    "scheduler_cron_spawned_total > 0",
    "scheduler_dispatch_lag_seconds_count > 0",
    "sum(scheduler_fanout_shards) == 256",
    "rate(executor_start_lag_seconds_count[1m]) > 0",
    "chronos:attempts:rate1m > 0",
)
"""What Prometheus has to have seen before a test may begin."""


@dataclass(frozen=True)
class Observed:
    """The stack: one process of each role, and a second scheduler."""

    prometheus: Watcher
    repository: Repository
    roles: Sequence[RoleProcess]
    api: str
    """Where the API is."""


@contextmanager
def observed_stack(
    directory: Path, store: StoreConfig, broker: BrokerConfig, etcd: Sequence[str]
) -> Iterator[Observed]:
    """Start it, give it work, and stop it."""
    ensure_topics(broker, topics_for(registry.known_types()))
    repository = Repository.connect(store)
    repository.ensure_indexes()
    environment = environment_for(store, broker, etcd) | _SHORT
    api = f"http://127.0.0.1:{environment['API_PORT']}"
    roles: list[RoleProcess] = []
    watcher = Watcher(directory)
    try:
        for arguments, fans_out in (
            (["runapi"], False),
            (["runscheduler", "--name", "leader"], False),
            # Both dispatch, so that each role has all that it could show.
            (["runfanout"], True),
            (["runexecutor", "--type", "noop,slow,flaky,log-message,http,kafka"], False),
            (["runreaper"], False),
        ):
            changes = {"DISPATCH": "fanout"} if fans_out else {}
            roles.append(RoleProcess(*arguments, environment=environment | changes))
        for role in roles:
            role.wait_ready(_PATIENCE)
        watcher.scrape(roles)
        watcher.start()
        watcher.wait_ready()
        # What begins before the first look has not risen.
        wait_for(lambda: len(watcher.query("up == 1")) == len(roles), deadline=_PATIENCE)
        _work(api, repository)
        for expression in _SEEN:
            wait_for(
                partial(watcher.query, expression),
                deadline=_PATIENCE,
                show=partial(str, expression),
            )
        yield Observed(watcher, repository, roles, api)
    finally:
        watcher.kill()
        for role in roles:
            role.clear()
        repository.close()


def _work(api: str, repository: Repository) -> None:
    """Jobs that are completed, dead and delivered, one that nobody serves, a template's run."""
    health = {"url": f"{api}/healthz", "method": "GET"}
    kinds: list[tuple[int, dict[str, Any]]] = [
        (20, {"jobType": "noop"}),
        (10, {"jobType": "slow", "payload": {"sleepMs": 300}}),
        (5, {"jobType": "flaky", "payload": {"failRate": 1}, "maxAttempts": 1}),
        (3, {"jobType": "http", "delivery": health}),
    ]
    now = repository.clock.now()
    with httpx.Client(base_url=api, trust_env=False) as client:
        for count, job in kinds:
            for _ in range(count):
                document = {
                    "idempotencyKey": uuid4().hex,
                    "tenantId": "tenant-a",
                    "scheduledAt": now.isoformat(),
                    **job,
                }
                client.post("/jobs", json=document).raise_for_status()
        assert client.get("/jobs/none").status_code == httpx.codes.BAD_REQUEST
    repository.jobs.insert([a_job(job_type="nobody-serves-this"), a_template(scheduled_at=NOW)])
