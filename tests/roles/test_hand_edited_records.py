"""Buckets, and definitions of templates, that somebody edited by hand: no step of a role fails."""

from __future__ import annotations

from datetime import timedelta

from bson import MaxKey
from bson.datetime_ms import DatetimeMS

from chronos_site.config import BrokerConfig
from jobs.broker.publisher import Publisher
from jobs.broker.topics import ensure_topics
from jobs.lifecycle import Status
from jobs.messages import TRIGGERS_TOPIC
from jobs.repository import Repository
from jobs.repository.definitions import definition_id
from scheduler.firing import Firing
from scheduler.triggering import Triggering
from tests.builders import a_job, a_template
from tests.edits import BUCKET, DEFINITION, edited

MINUTE = timedelta(minutes=1)


def test_edited_buckets_hold_up_no_minute(
    repo: Repository, publisher: Publisher, job_type: str, broker_config: BrokerConfig
) -> None:
    ensure_topics(broker_config, [TRIGGERS_TOPIC])
    now = repo.clock.now()
    this = now.replace(second=0, microsecond=0)
    repo.jobs.insert([a_job(job_type=job_type, scheduled_at=this)])
    buckets = repo.buckets._buckets
    buckets.insert_many(
        {"_id": this - number * MINUTE, **document}
        for number, document in enumerate(edited(BUCKET), start=1)
    )
    buckets.insert_many({"_id": value} for value in ("x", 7, None, DatetimeMS(1 << 60), MaxKey()))

    triggering = Triggering(repo, publisher, owner="leader", term=99, job_types=lambda: [job_type])
    triggering.step(now)

    minute = next(each for each in repo.buckets.recent(limit=5) if each.minute == this)
    assert (minute.opened_by, minute.is_open) == ("leader", False)


def test_edited_definitions_hold_up_no_template(repo: Repository, job_type: str) -> None:
    now = repo.clock.now()
    definitions = repo.definitions._definitions
    templates = []
    for number, document in enumerate(edited(DEFINITION)):
        name = f"hook-{number}"
        own = {"_id": definition_id("t", name)}
        if document.get("name") == "hook":
            own["name"] = name
        definitions.insert_one(document | own)
        templates.append(
            a_template(
                tenant_id="t",
                job_type="http",
                definition=name,
                definition_version=1,
                overrides="{}",
                delivery=DEFINITION["delivery"],
                scheduled_at=now - MINUTE,
            )
        )
    good = a_template(job_type=job_type, scheduled_at=now)
    repo.jobs.insert([*templates, good])
    firing = Firing(repo, batch=1_000, grace=MINUTE)

    while firing.step(now):
        pass

    page = repo.jobs.page(good.tenant_id, limit=5, template_id=good.id)
    assert len(page.jobs) == 1
    after = [repo.jobs.get(each.id) for each in templates]
    assert {each.status for each in after} == {Status.PENDING, Status.DLQ}
    assert all(each.last_error for each in after if each.status is Status.DLQ)
    assert all(each.scheduled_at > now for each in after if each.status is Status.PENDING)
