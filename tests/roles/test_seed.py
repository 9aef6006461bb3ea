"""`manage.py seed`: the mix, and that a second run adds nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from jobs.lifecycle import Job
from jobs.load import mix
from jobs.repository import Repository
from tests.processes import RoleProcess

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
StartRole = Callable[..., RoleProcess]


def one_off_jobs(count: int, **changes: Any) -> list[dict[str, Any]]:
    named = {"seed": 1, "prefix": "seed", "tenants": mix.TENANTS, "now": NOW} | changes
    return list(mix.one_off_jobs(count, **named))


def stored_jobs(repo: Repository, tenant: str) -> list[Job]:
    page = repo.jobs.page(tenant, limit=5000)
    assert page.next is None
    return [job for job in page.jobs if isinstance(job, Job)]


def test_the_mix_has_every_kind_in_every_tenant() -> None:
    jobs = one_off_jobs(1000)

    kinds = Counter((job["tenantId"], job["jobType"]) for job in jobs)
    assert len(kinds) == 4 * 4
    later = [job for job in jobs if job["scheduledAt"] != "2026-03-01T12:00:00Z"]
    assert 250 < len(later) < 350
    assert max(job["scheduledAt"] for job in later) < "2026-03-01T13:00:00Z"
    flaky = [job["payload"]["failRate"] for job in jobs if job["jobType"] == "flaky"]
    assert 0 < flaky.count(1) < len(flaky) / 3


def test_the_mix_is_the_same_each_time_and_its_beginning_whatever_the_count() -> None:
    assert one_off_jobs(50) == list(islice(one_off_jobs(500), 50))


def test_another_seed_gives_other_jobs() -> None:
    keys = {job["idempotencyKey"] for job in one_off_jobs(50)}
    others = one_off_jobs(50, seed=2)

    assert keys.isdisjoint(job["idempotencyKey"] for job in others)
    assert [job["jobType"] for job in others] != [job["jobType"] for job in one_off_jobs(50)]


def test_seed_stores_jobs_and_templates_of_several_tenants(
    start_role: StartRole, repo: Repository
) -> None:
    seed = start_role("seed", "--count", "1200", "--tenants", "red", "blue")

    assert seed.wait() == 0, seed.output
    assert "Inserted 1200 jobs" in seed.output
    assert "4 cron templates; 0 existed already. Tenants: red, blue." in seed.output
    jobs = [*stored_jobs(repo, "red"), *stored_jobs(repo, "blue")]
    assert len(jobs) == 1204
    assert sum(job.is_template for job in jobs) == 4
    now = repo.clock.now()
    due_later = [job.scheduled_at for job in jobs if job.scheduled_at > now and not job.is_template]
    assert max(due_later) < now + timedelta(hours=1)


def test_a_second_seed_stores_only_what_is_missing(start_role: StartRole, repo: Repository) -> None:
    assert start_role("seed", "--count", "30", "--tenants", "red").wait() == 0

    second = start_role("seed", "--count", "40", "--tenants", "red")

    assert second.wait() == 0
    assert "Inserted 10 jobs" in second.output
    assert "and 0 cron templates; 32 existed already." in second.output
    assert len(stored_jobs(repo, "red")) == 42


def test_another_prefix_stores_the_jobs_once_more(start_role: StartRole, repo: Repository) -> None:
    assert start_role("seed", "--count", "5", "--tenants", "red").wait() == 0

    assert start_role("seed", "--count", "5", "--tenants", "red", "--prefix", "b").wait() == 0

    keys = {job.idempotency_key for job in stored_jobs(repo, "red")}
    assert {"seed-1-0", "b-1-0", "seed-1-cron-0", "b-1-cron-0"} <= keys
    assert len(keys) == 14


def test_what_cannot_be_stored_is_one_sentence(start_role: StartRole) -> None:
    refused = [
        (start_role("seed", "--count", "0"), "--count: '0' is no positive number"),
        (start_role("seed", "--tenants", ""), "tenantId must not be empty"),
        (start_role("seed", "--prefix", "x" * 300), "idempotencyKey must not be longer than 255"),
        (start_role("seed", MONGO_DB="nothing_here"), "Run: python manage.py migrate"),
        (start_role("seed", MONGO_URI="mongodb://127.0.0.1:1/"), "MongoDB does not answer"),
    ]

    for seed, sentence in refused:
        assert seed.wait() != 0
        assert sentence in seed.output
        assert "Traceback" not in seed.output
