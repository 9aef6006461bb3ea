"""The jobs that `seed` makes up: every kind, every fate, several tenants.

Each part is a pure function of its arguments: the same number is always the same job, so a second
run meets the keys of the first.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from jobs.instants import format_instant

TENANTS: Final = ("acme", "globex", "initech", "umbrella")
FUTURE_SHARE: Final = 0.3
"""Of the jobs, how many are due later."""
LATEST: Final = timedelta(hours=1)

_TYPES: Final = {"log-message": 40, "noop": 25, "flaky": 20, "slow": 15}
_PRIORITIES: Final = {0: 70, 5: 20, 10: 8, -5: 2}
# Retried at most, dead-lettered most of the time, dead-lettered always.
_FAIL_RATES: Final = {0.3: 60, 0.8: 25, 1: 15}
_MESSAGES: Final = (
    "order {number} was paid",
    "invoice {number} was sent",
    "report {number} is ready",
    "customer {number} signed up",
)
_TEMPLATES: Final[tuple[dict[str, Any], ...]] = (
    {
        "cron": "* * * * *",
        "jobType": "log-message",
        "payload": {"message": "another minute has passed"},
    },
    {"cron": "*/5 * * * *", "jobType": "noop", "overlap": "skip"},
    {
        "cron": "30 6 * * 1-5",
        "timezone": "Europe/Berlin",
        "jobType": "log-message",
        "payload": {"message": "good morning"},
        "catchUp": "none",
    },
    {"cron": "0 2 * * *", "jobType": "slow", "payload": {"sleepMs": 1500}, "catchUp": "one"},
    {
        "cron": "*/10 * * * *",
        "jobType": "flaky",
        "payload": {"failRate": 0.5},
        "retry": {"strategy": "fixed", "base": 2},
    },
)


def one_off_jobs(
    count: int, *, seed: int, prefix: str, tenants: Sequence[str], now: datetime
) -> Iterator[dict[str, Any]]:
    """Documents of one-off jobs, as one would submit them.

    Args:
        count: how many; the first ones do not depend on it.
        seed: other seeds give other jobs, with other keys.
        prefix: what the keys begin with.
        tenants: whose jobs they are.
        now: when those without a delay are due, aware UTC.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    for number in range(count):
        job_type = _weighted(chance, _TYPES)
        delay = timedelta()
        if chance.random() < FUTURE_SHARE:
            delay = LATEST * chance.random()
        document: dict[str, Any] = {
            "idempotencyKey": f"{prefix}-{seed}-{number}",
            "tenantId": chance.choice(tenants),
            "jobType": job_type,
            "scheduledAt": format_instant(now + delay),
            "priority": _weighted(chance, _PRIORITIES),
        }
        match job_type:
            case "log-message":
                message = chance.choice(_MESSAGES).format(number=number)
                document["payload"] = {"message": message}
            case "flaky":
                document["payload"] = {"failRate": _weighted(chance, _FAIL_RATES)}
            case "slow":
                document["payload"] = {"sleepMs": chance.randrange(200, 2000)}
        yield document


def templates(*, seed: int, prefix: str, tenants: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Documents of cron templates: two for each tenant, in turn. Arguments as above."""
    for number in range(2 * len(tenants)):
        yield {
            "idempotencyKey": f"{prefix}-{seed}-cron-{number}",
            "tenantId": tenants[number // 2],
            **_TEMPLATES[number % len(_TEMPLATES)],
        }


def _weighted(chance: random.Random, weights: dict[Any, int]) -> Any:
    [value] = chance.choices(list(weights), list(weights.values()))
    return value
