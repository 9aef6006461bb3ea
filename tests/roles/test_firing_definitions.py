"""Templates with a definition: each run is made from the definition as it is when it fires."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pymongo.collection import Collection

from jobs.definitions import Definition, overrides_text, own_values
from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from scheduler.firing import Firing
from tests.builders import NOW, a_template

DELIVERY = '{"url":"https://example.com/old","headers":{"X-A":"1"}}'
LATER = NOW + timedelta(seconds=1)


@pytest.fixture
def firing(repo: Repository) -> Firing:
    return Firing(repo, batch=100, grace=timedelta(minutes=1))


@pytest.fixture
def definition(repo: Repository) -> Definition:
    """Definition "hook" of tenant-a."""
    made = repo.definitions.create(
        Definition(
            tenant_id="tenant-a",
            name="hook",
            version=1,
            job_type="http",
            delivery=DELIVERY,
            payload='{"a":1}',
            priority=3,
            tags=("hooks",),
            created_at=NOW,
            updated_at=NOW,
        )
    )
    assert made is not None
    return made


@pytest.fixture
def template(repo: Repository, definition: Definition) -> Callable[..., Job]:
    """Stores a due template of the definition; keywords are what it says itself, by attribute."""

    def insert(**own: Any) -> Job:
        made = a_template(
            job_type="http",
            scheduled_at=NOW,
            definition=definition.name,
            definition_version=definition.version,
            overrides=overrides_text(own_values(own)),
        )
        assert repo.jobs.insert([made]) == [True]
        return made

    return insert


def run_of(repo: Repository, template: Job) -> Job:
    (run,) = repo.jobs.page(template.tenant_id, limit=10, template_id=template.id).jobs
    assert isinstance(run, Job)
    return run


def change(repo: Repository, definition: Definition, **fields: Any) -> Definition:
    changed = replace(definition, version=definition.version + 1, **fields)
    assert repo.definitions.replace(changed, version=definition.version)
    return changed


def documents(repo: Repository) -> Collection[dict[str, Any]]:
    return repo.jobs._jobs


def test_a_run_has_all_that_it_needs(
    firing: Firing, repo: Repository, template: Callable[..., Job]
) -> None:
    made = template()

    firing.step(LATER)

    run = run_of(repo, made)
    assert (run.job_type, run.definition, run.definition_version) == ("http", "hook", 1)
    assert (run.delivery, run.payload, run.priority) == (DELIVERY, '{"a":1}', 3)
    assert run.tags == ("hooks",)
    assert run.overrides is None
    assert (run.template_id, run.occurrence_at) == (made.id, NOW)


def test_a_run_is_made_from_the_definition_as_it_is_now(
    firing: Firing, repo: Repository, definition: Definition, template: Callable[..., Job]
) -> None:
    made = template(priority=0, tags=("mine",), delivery='{"headers":{"x-a":"2"}}')
    change(
        repo,
        definition,
        delivery='{"url":"https://example.com/new","headers":{"X-A":"1","X-B":"1"}}',
        priority=9,
        payload=None,
        max_attempts=7,
        retry={"strategy": "fixed"},
    )

    firing.step(LATER)

    run = run_of(repo, made)
    assert run.definition_version == 2
    assert run.delivery == '{"url":"https://example.com/new","headers":{"X-B":"1","x-a":"2"}}'
    assert (run.priority, run.payload, run.max_attempts) == (0, None, 7)
    assert run.tags == ("hooks", "mine")
    assert run.retry == {"strategy": "fixed"}


def test_a_template_without_its_definition_becomes_a_dead_letter(
    firing: Firing, repo: Repository, definition: Definition, template: Callable[..., Job]
) -> None:
    made, other = template(), template()
    documents(repo).update_one({"_id": other.id}, {"$set": {"tenantId": "tenant-b"}})
    repo.definitions._definitions.delete_many({})

    firing.step(LATER)

    for each in (made, other):
        dead = repo.jobs.get(each.id)
        assert dead.status is Status.DLQ
        assert dead.last_error == 'definition names none of this tenant: "hook"'
    assert repo.jobs.page("tenant-a", limit=10, template_id=made.id).jobs == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"overrides": "{"}, "overrides is not JSON"),
        ({"overrides": "[]"}, "overrides must be an object"),
        ({"overrides": '{"status":"x"}'}, "overrides must be an object with some of"),
        ({"overrides": '{"tags":"x"}'}, "overrides cannot be used: tags must be an array"),
        ({"overrides": '{"priority":"high"}'}, "overrides cannot be used: priority must be"),
        ({"overrides": '{"payload":5}'}, "overrides cannot be used: payload must be a string"),
        ({"overrides": '{"payload":"[]"}'}, "overrides cannot be used: payload must be an object"),
        ({"overrides": '{"delivery":5}'}, "overrides cannot be used: delivery must be a string"),
        ({"overrides": '{"delivery":"["}'}, "overrides cannot be used: delivery is not JSON"),
        (
            {"overrides": '{"delivery":"{\\"headers\\":5}"}'},
            "overrides cannot be used: delivery.headers must be an object of strings",
        ),
    ],
)
def test_what_was_edited_by_hand_is_told_and_stops_nobody(
    firing: Firing,
    repo: Repository,
    template: Callable[..., Job],
    change: dict[str, Any],
    reason: str,
) -> None:
    broken, good = template(), template()
    documents(repo).update_one({"_id": broken.id}, {"$set": change})

    firing.step(LATER)

    dead = repo.jobs.get(broken.id)
    assert dead.status is Status.DLQ
    assert (dead.last_error or "").startswith(reason)
    assert run_of(repo, good).definition == "hook"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tags": 5}, "tags cannot be 5"),
        ({"timeoutSeconds": -1}, "timeoutSeconds must be"),
        ({"timeoutSeconds": float("nan")}, "timeoutSeconds must be"),
        ({"retry": {"base": NOW}}, "retry.base must be"),
        ({"payload": "x"}, "payload is not JSON"),
        ({"delivery": '{"url":"http://a","headers":5}'}, "delivery.headers must be an object"),
        ({"delivery": '{"url":"http://a","headers":null}'}, "delivery.headers must be an object"),
        ({"delivery": '{"url":"http://a","secret":5}'}, "delivery.secret must be a string"),
        ({"delivery": "{}"}, "delivery.url is required"),
    ],
)
def test_a_definition_that_was_edited_by_hand_is_told_and_stops_nobody(
    firing: Firing,
    repo: Repository,
    template: Callable[..., Job],
    change: dict[str, Any],
    reason: str,
) -> None:
    made = template()
    other = a_template(scheduled_at=NOW)
    repo.jobs.insert([other])
    repo.definitions._definitions.update_one({}, {"$set": change})

    firing.step(LATER)

    assert reason in (repo.jobs.get(made.id).last_error or "")
    assert run_of(repo, other).status is Status.PENDING
