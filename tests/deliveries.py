"""HTTP deliveries without an executor: attempts, one after the other or at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

from chronos_site.config import DeliveryConfig
from executor.calls import AttemptError
from executor.delivery.network import Resolve
from executor.delivery.pool import http_sender
from executor.delivery.sender import Delivered
from jobs.lifecycle import Job
from tests.builders import a_job

LOOPBACK = (ip_network("127.0.0.0/8"),)
"""For DELIVERY_ALLOWED_NETWORKS: where the targets of tests are."""
_JOB_FIELDS = Job.__dataclass_fields__.keys()


def http_job(url: str, **fields: Any) -> Job:
    """A job that delivers there. Keywords are fields of `Job`, or else of the delivery."""
    of_job = {name: value for name, value in fields.items() if name in _JOB_FIELDS}
    of_delivery = {name: value for name, value in fields.items() if name not in _JOB_FIELDS}
    return a_job(
        **{"job_type": "http", "delivery": json.dumps({"url": url} | of_delivery)} | of_job
    )


def attempt(job: Job, **settings: Any) -> Delivered | Exception:
    """Make one attempt; see `attempts`."""
    [result] = attempts(job, **settings)
    return result


def attempts(
    *jobs: Job,
    at_once: bool = False,
    pause: float = 0.0,
    cut: Callable[[], float | None] = lambda: None,
    resolve: Resolve | None = None,
    **settings: Any,
) -> list[Delivered | Exception]:
    """Make one attempt for each job, over the same connections.

    Args:
        jobs: what to deliver.
        at_once: all together, not one after the other.
        pause: seconds between two.
        cut: seconds after which an attempt is broken off, asked for each.
        resolve: tells addresses instead of the system.
        settings: fields of `DeliveryConfig`; loopback is allowed unless they say otherwise.

    Returns:
        What each attempt returned, or raised.
    """
    config = DeliveryConfig(**{"allowed_networks": LOOPBACK} | settings)

    async def run() -> list[Delivered | Exception]:
        sender = http_sender(
            config, clock=lambda: datetime.now(UTC), user_agent="Chronos/test", resolve=resolve
        )

        async def one(job: Job) -> Delivered | Exception:
            try:
                async with asyncio.timeout(cut()):
                    return await sender.deliver(job)
            except Exception as exc:  # noqa: BLE001 - what went wrong is what is asked for
                return exc

        try:
            if at_once:
                return await asyncio.gather(*map(one, jobs))
            results = []
            for number, job in enumerate(jobs):
                await asyncio.sleep(pause if number else 0)
                results.append(await one(job))
            return results
        finally:
            await sender.close()

    return asyncio.run(run())


def failed(result: Delivered | Exception) -> AttemptError:
    """The failure of an attempt that failed."""
    assert isinstance(result, AttemptError), result
    return result


def done(result: Delivered | Exception) -> Delivered:
    """What an attempt that succeeded returned."""
    assert isinstance(result, Delivered), result
    return result


def codes(results: Iterable[Delivered | Exception]) -> list[int | None]:
    """The answers of attempts that succeeded."""
    return [response.code if (response := done(each).response) else None for each in results]
