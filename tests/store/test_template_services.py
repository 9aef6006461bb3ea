"""The use cases of templates: create, edit, pause, backfill."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from cryptography.fernet import Fernet

from jobs.audit import Action, Author, Via
from jobs.delivery.config import decoded
from jobs.delivery.secrets import Secrets
from jobs.errors import (
    DuplicateKey,
    InvalidJob,
    KeyCollision,
    VersionMismatch,
    WrongState,
)
from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from jobs.repository.templates import Advance
from jobs.services import Services
from jobs.template_revision import editable_document, version_of
from tests.builders import a_job, a_template
from tests.store.conftest import Documents

OLGA: Final = Author("olga", Via.ADMIN)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
SIGNING_KEY: Final = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HTTP: Final = {"url": "https://example.com/hook", "secret": SIGNING_KEY}


@pytest.fixture
def services(repo: Repository) -> Services:
    types = {"noop", "slow", "http"}
    return Services(repo, types, Secrets([Fernet.generate_key().decode()]))


def submitted(**changes: Any) -> dict[str, Any]:
    document = {
        "idempotencyKey": "nightly",
        "tenantId": "tenant-a",
        "jobType": "noop",
        "cron": "0 2 * * *",
        **changes,
    }
    return {name: value for name, value in document.items() if value is not None}


def edit(services: Services, template: Job, **changes: Any) -> Job:
    document = editable_document(template) | changes
    document = {name: value for name, value in document.items() if value is not None}
    edited = services.templates.edit(template.id, document, version=version_of(template), by=OLGA)
    assert isinstance(edited, Job)
    return edited


def log(services: Services) -> list[Action]:
    entries, _ = services.repository.audit_log.page(None, limit=100)
    return [entry.action for entry in entries if entry.action.startswith("template.")]


def test_create_stores_a_template_and_who_did(services: Services) -> None:
    made = services.templates.create(submitted(tags=["a"]), by=OLGA)

    assert services.repository.jobs.get(made.id) == made
    assert made.is_template
    [entry], _ = services.repository.audit_log.page({"tenant-a"}, limit=2)
    assert (entry.author, entry.action) == (OLGA, Action.TEMPLATE_CREATE)
    assert entry.targets == (str(made.id),)
    assert entry.after["tags"] == ["a"]


def test_create_refuses_what_submit_does(services: Services, documents: Documents) -> None:
    made = services.templates.create(submitted())

    with pytest.raises(DuplicateKey):
        services.templates.create(submitted())
    with pytest.raises(InvalidJob, match=r"^cron is required"):
        services.templates.create(submitted(cron=None, idempotencyKey="other"))
    with pytest.raises(InvalidJob, match='cron hour "25"'):
        services.templates.create(submitted(cron="0 25 * * *"))
    with pytest.raises(InvalidJob, match="definition names none"):
        services.templates.create(submitted(jobType=None, definition="gone"))
    documents.update_one({"_id": made.id}, {"$set": {"idempotencyKey": "another"}})
    with pytest.raises(KeyCollision):
        services.templates.create(submitted())
    assert log(services) == [Action.TEMPLATE_CREATE]


def test_an_edit_changes_what_it_says_and_nothing_else(services: Services) -> None:
    made = services.templates.create(submitted(payload={"a": 1}, timezone="Asia/Tokyo"))

    edited = edit(services, made, payload={"a": 2}, priority=7, overlap="skip")

    assert edited.payload == '{"a":2}'
    assert (edited.priority, edited.overlap, edited.timezone) == (7, "skip", "Asia/Tokyo")
    assert edited.scheduled_at == made.scheduled_at
    assert (edited.created_at, edited.status) == (made.created_at, made.status)


def test_another_expression_or_zone_fires_at_other_times(services: Services) -> None:
    made = services.templates.create(submitted())

    hourly = edit(services, made, cron="30 * * * *")
    elsewhere = edit(services, hourly, timezone="Asia/Kolkata")

    assert hourly.scheduled_at.minute == 30
    assert elsewhere.scheduled_at.minute == 0


def test_what_an_edit_leaves_out_is_as_in_a_submission(services: Services) -> None:
    made = services.templates.create(submitted(tags=["a"], priority=5, timeoutSeconds=3))

    edited = edit(services, made, tags=None, priority=None, timeoutSeconds=None)

    assert (edited.tags, edited.priority, edited.timeout_seconds) == ((), 0, None)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"cron": None}, "^cron is required"),
        ({"cron": "0 25 * * *"}, '^cron hour "25"'),
        ({"timezone": "Mars"}, "^timezone"),
        ({"priority": "high"}, "^priority must be an integer"),
        ({"payload": []}, "^payload must be an object"),
        ({"jobType": "slow"}, '"jobType" cannot be changed'),
        ({"delivery": {"url": "https://example.com"}}, "^delivery is only for"),
    ],
)
def test_an_edit_is_checked_like_a_submission(
    services: Services, changes: dict[str, Any], problem: str
) -> None:
    made = services.templates.create(submitted())

    with pytest.raises(InvalidJob, match=problem):
        edit(services, made, **changes)

    assert services.repository.jobs.get(made.id) == made


def test_of_two_editors_the_second_is_told(services: Services) -> None:
    made = services.templates.create(submitted())
    edit(services, made, priority=1)

    with pytest.raises(VersionMismatch):
        edit(services, made, priority=2)


def test_a_template_that_fires_meanwhile_can_be_edited(services: Services) -> None:
    made = services.templates.create(submitted())
    fired_at = made.scheduled_at
    move = Advance(made.id, fired_at, fired_at + DAY)
    assert services.repository.templates.advance([move], now=fired_at) == 1

    edited = edit(services, made, priority=1)

    assert (edited.priority, edited.scheduled_at) == (1, fired_at + DAY)


def test_an_edit_that_changes_nothing_writes_nothing(services: Services) -> None:
    made = services.templates.create(submitted(retry={"strategy": "fixed"}, tags=["a"]))

    assert edit(services, made) == made
    assert log(services) == [Action.TEMPLATE_CREATE]


@pytest.mark.parametrize("status", Status)
def test_what_is_over_or_no_template_is_not_edited(services: Services, status: Status) -> None:
    template, job = a_template(status=status), a_job(status=status)
    services.repository.jobs.insert([template, job])

    with pytest.raises(WrongState, match="no template"):
        services.templates.edit(job.id, {"cron": "0 2 * * *"}, version=version_of(job))
    if status in (Status.PENDING, Status.PAUSED, Status.DLQ):
        assert edit(services, template, cron="0 5 * * *").status is status
    else:
        with pytest.raises(WrongState, match="cannot be edited"):
            edit(services, template, cron="0 5 * * *")


def test_secrets_that_an_edit_leaves_out_stay(services: Services) -> None:
    made = services.templates.create(submitted(jobType="http", delivery=HTTP))
    shown = editable_document(made)["delivery"]

    edited = edit(services, made, delivery=shown | {"method": "PUT"})
    without = edit(services, edited, delivery=shown | {"secret": None})

    assert SIGNING_KEY not in str(shown)
    assert shown["hasSecret"] is True
    assert made.delivery is not None
    assert edited.delivery is not None
    assert without.delivery is not None
    assert decoded(edited.delivery)["secret"] == decoded(made.delivery)["secret"]
    assert decoded(edited.delivery)["method"] == "PUT"
    assert "secret" not in decoded(without.delivery)


def test_secrets_do_not_go_elsewhere(services: Services) -> None:
    made = services.templates.create(submitted(jobType="http", delivery=HTTP))

    with pytest.raises(InvalidJob, match=r"^delivery\.url leads elsewhere"):
        edit(services, made, delivery={"url": "https://example.org/hook"})

    moved = edit(
        services, made, delivery={"url": "https://example.org/hook", "secret": SIGNING_KEY}
    )
    assert moved.delivery is not None
    assert decoded(moved.delivery)["url"] == "https://example.org/hook"


def test_a_template_with_a_definition_keeps_it_and_its_own_secrets(services: Services) -> None:
    services.definitions.create(
        {
            "name": "hook",
            "tenantId": "tenant-a",
            "jobType": "http",
            "delivery": {"url": HTTP["url"]},
            "priority": 3,
        }
    )
    made = services.templates.create(
        submitted(jobType=None, definition="hook", delivery={"secret": SIGNING_KEY}, tags=["a"])
    )
    document = editable_document(made)

    edited = edit(services, made, tags=["b"])

    assert document == {
        "cron": "0 2 * * *",
        "catchUp": "one",
        "overlap": "allow",
        "tags": ["a"],
        "delivery": {"hasSecret": True},
    }
    assert (edited.definition, edited.priority, edited.tags) == ("hook", 3, ("b",))
    assert made.delivery is not None
    assert edited.delivery is not None
    assert decoded(edited.delivery) == decoded(made.delivery)
    assert edited.overrides is not None
    assert decoded(edited.delivery)["secret"] in edited.overrides


def test_a_pause_has_a_reason_and_an_end(services: Services) -> None:
    made = services.templates.create(submitted())

    paused = services.templates.pause(
        made.id, {"reason": "a move", "until": "2999-01-01T00:00:00Z"}, by=OLGA
    )

    assert isinstance(paused, Job)
    assert (paused.paused_reason, paused.paused_by) == ("a move", "olga")
    assert paused.paused_until == datetime(2999, 1, 1, tzinfo=UTC)
    assert paused.paused_at == paused.updated_at


def backfilled(services: Services, template: Job, start: datetime, end: datetime) -> list[datetime]:
    services.templates.backfill(template.id, start=start, end=end, by=OLGA)
    page = services.repository.jobs.page("tenant-a", limit=1000, template_id=template.id)
    runs = [job for job in page.jobs if isinstance(job, Job)]
    assert all(run.scheduled_at == run.created_at for run in runs)
    return sorted(run.occurrence_at for run in runs if run.occurrence_at)


def test_a_backfill_runs_the_occurrences_of_a_range_once(services: Services) -> None:
    made = services.templates.create(submitted(cron="0 * * * *", payload={"a": 1}))

    planned = services.templates.plan_backfill(made.id, start=START, end=START + 3 * HOUR)
    ran = backfilled(services, made, START, START + 3 * HOUR)
    again = services.templates.plan_backfill(made.id, start=START, end=START + 4 * HOUR)
    ran_again = backfilled(services, made, START, START + 4 * HOUR)

    assert (list(planned.occurrences), planned.existing) == (ran, 0)
    assert ran == [START, START + HOUR, START + 2 * HOUR]
    assert (len(again.occurrences), again.existing) == (4, 3)
    assert ran_again == [*ran, START + 3 * HOUR]
    assert log(services) == [
        Action.TEMPLATE_BACKFILL,
        Action.TEMPLATE_BACKFILL,
        Action.TEMPLATE_CREATE,
    ]


def test_a_range_that_is_too_long_is_told_how_far_it_may_go(services: Services) -> None:
    made = services.templates.create(submitted(cron="* * * * *"))

    with pytest.raises(InvalidJob, match=r"^to .* 1,000 .* than 2026-01-01T16:40:00Z"):
        services.templates.plan_backfill(made.id, start=START, end=START + DAY)

    end = START + timedelta(minutes=1000)
    assert len(services.templates.plan_backfill(made.id, start=START, end=end).occurrences) == 1000
    assert len(backfilled(services, made, START, end)) == 1000


def test_large_payloads_make_the_range_shorter(services: Services) -> None:
    made = services.templates.create(submitted(payload={"a": "x" * (1 << 19)}, cron="* * * * *"))

    with pytest.raises(InvalidJob, match="more than 31 occurrences"):
        services.templates.plan_backfill(made.id, start=START, end=START + DAY)


@pytest.mark.parametrize(
    ("start", "end", "problem"),
    [
        (START, START, "^to must be later"),
        (START, datetime(2999, 1, 1, tzinfo=UTC), "^to must not be in the future"),
        (datetime(1969, 1, 1, tzinfo=UTC), START, "^from must not be before 1970"),
    ],
)
def test_a_range_that_cannot_be_used_is_refused(
    services: Services, start: datetime, end: datetime, problem: str
) -> None:
    made = services.templates.create(submitted())

    with pytest.raises(InvalidJob, match=problem):
        services.templates.plan_backfill(made.id, start=start, end=end)


@pytest.mark.parametrize("status", [Status.DLQ, Status.CANCELLED])
def test_what_is_over_is_not_backfilled(services: Services, status: Status) -> None:
    template = a_template(status=status)
    services.repository.jobs.insert([template])

    with pytest.raises(WrongState, match="cannot be backfilled"):
        services.templates.plan_backfill(template.id, start=START, end=START + HOUR)
    with pytest.raises(WrongState, match="cannot be backfilled"):
        services.templates.backfill(template.id, start=START, end=START + HOUR)


def test_a_preview_begins_now(services: Services) -> None:
    made = services.templates.preview("0 2 * * *", "Asia/Tokyo", count=5)

    assert made.words == "At 02:00"
    assert len(made.occurrences) == 5
    assert made.occurrences[0].at - services.repository.clock.now() <= DAY
