"""What the lists of jobs, dead letters, operations and the audit log say, and where they lead."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from jobs.services import Services
from tests.builders import a_job
from tests.web.dashboard import browser_of, text_of


@pytest.fixture(autouse=True)
def empty(pages: Services) -> Iterator[None]:
    def clear() -> None:
        pages.repository.jobs._jobs.delete_many({})

    clear()
    yield
    clear()


def test_the_list_of_jobs_counts_all_and_tells_when_each_was_created(pages: Services) -> None:
    now = pages.repository.clock.now()
    created = now - timedelta(hours=3, minutes=1)
    due = now + timedelta(hours=4, minutes=30)
    pages.repository.jobs.insert(
        [a_job(tenant_id="a", created_at=created, scheduled_at=due), a_job(tenant_id="b")]
    )

    everything = text_of(browser_of("root").get("/admin/jobs/"))
    member = text_of(browser_of("vera", a="viewer").get("/admin/jobs/"))

    assert "All 2 Pending 2" in everything
    assert "All 1 Pending Waiting for retry 0" in member
    assert "Attempt Created Due" in member
    assert "0 / 3 3 h ago in 4 h" in member
