"""Cancel, redrive, pause, resume and run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from bson import ObjectId

from jobs.lifecycle import Status
from jobs.services import Services
from tests.builders import a_job, a_template
from tests.web.client import Api, body_of, error_of, recurring

ACTIONS = ("cancel", "redrive", "pause", "resume", "run")
ALLOWED = {
    "cancel": {Status.PENDING, Status.QUEUED, Status.CLAIMED, Status.RUNNING, Status.PAUSED},
    "redrive": {Status.DLQ, Status.CANCELLED},
}


@pytest.mark.parametrize("action", ACTIONS)
def test_ids_are_checked(api: Api, action: str) -> None:
    assert "24 hexadecimal" in error_of(api.post(f"/jobs/nope/{action}"), 400)
    assert "0" * 24 in error_of(api.post(f"/jobs/{'0' * 24}/{action}"), 404)


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("action", ALLOWED)
def test_a_job_moves_or_409_tells_its_status(
    api: Api, use_cases: Services, action: str, status: Status
) -> None:
    job = a_job(status=status)
    use_cases.repository.jobs.insert([job])

    answer = api.post(f"/jobs/{job.id}/{action}")

    shown = body_of(api.get(f"/jobs/{job.id}"))
    if status in ALLOWED[action]:
        assert answer.status_code == 200
        assert body_of(answer) == shown
        assert shown["status"] == {"cancel": "cancelled", "redrive": "pending"}[action]
    else:
        assert answer.status_code == 409
        body = body_of(answer)
        assert body["status"] == shown["status"] == status
        assert status in body["error"]


@pytest.mark.parametrize("action", ["pause", "resume", "run"])
def test_what_is_no_template_is_409(api: Api, action: str) -> None:
    job = api.submit()

    answer = api.post(f"/jobs/{job['id']}/{action}")

    assert answer.status_code == 409
    assert body_of(answer)["status"] == "pending"
    assert "no template" in body_of(answer)["error"]


def test_a_running_job_is_cancelled_at_once(api: Api, use_cases: Services) -> None:
    job = a_job(status=Status.RUNNING, claim_id="c", claimed_by="e")
    use_cases.repository.jobs.insert([job])

    body = body_of(api.post(f"/jobs/{job.id}/cancel"))

    assert body["status"] == "cancelled"
    assert "finishedAt" in body
    assert use_cases.repository.claims.lost([(job.id, "c")]) == {(job.id, "c")}


def test_redrive_gives_all_attempts_again_and_is_due_now(api: Api, use_cases: Services) -> None:
    job = a_job(status=Status.DLQ, attempts=3, last_error="no", finished_at=datetime.now(UTC))
    use_cases.repository.jobs.insert([job])

    body = body_of(api.post(f"/jobs/{job.id}/redrive"))

    assert (body["status"], body["attempts"]) == ("pending", 0)
    assert body["scheduledAt"] == body["updatedAt"]
    assert "finishedAt" not in body


def test_a_redriven_template_waits_for_its_next_occurrence(api: Api, use_cases: Services) -> None:
    template = body_of(api.post("/jobs", recurring()))
    api.post(f"/jobs/{template['id']}/cancel")

    body = body_of(api.post(f"/jobs/{template['id']}/redrive"))

    assert body["status"] == "pending"
    assert body["scheduledAt"] == template["scheduledAt"]


def test_a_template_with_a_broken_expression_cannot_go_on(api: Api, use_cases: Services) -> None:
    dead = a_template(status=Status.DLQ, cron="nonsense")
    paused = a_template(status=Status.PAUSED, cron="nonsense")
    use_cases.repository.jobs.insert([dead, paused])

    for template, action in ((dead, "redrive"), (paused, "resume")):
        answer = api.post(f"/jobs/{template.id}/{action}")

        assert answer.status_code == 409
        assert "five fields" in body_of(answer)["error"]
        assert body_of(answer)["status"] == template.status


def test_pause_and_resume(api: Api, use_cases: Services) -> None:
    # Long ago: when it is resumed, the occurrences in between are dropped.
    template = a_template(scheduled_at=datetime(2026, 1, 1, tzinfo=UTC))
    use_cases.repository.jobs.insert([template])

    paused = body_of(api.post(f"/jobs/{template.id}/pause"))
    again = api.post(f"/jobs/{template.id}/pause")
    resumed = body_of(api.post(f"/jobs/{template.id}/resume"))
    not_paused = api.post(f"/jobs/{template.id}/resume")

    assert paused["status"] == "paused"
    assert (again.status_code, body_of(again)["status"]) == (409, "paused")
    assert resumed["status"] == "pending"
    wait = datetime.fromisoformat(resumed["scheduledAt"]) - datetime.fromisoformat(
        resumed["updatedAt"]
    )
    assert timedelta(0) < wait <= timedelta(minutes=1)
    assert (not_paused.status_code, body_of(not_paused)["status"]) == (409, "pending")


@pytest.mark.parametrize("paused", [False, True])
def test_run_spawns_one_run_beside_the_occurrences(
    api: Api, use_cases: Services, paused: bool
) -> None:
    template = body_of(
        api.post(
            "/jobs",
            recurring(
                idempotencyKey="nightly",
                payload={"a": 1},
                priority=4,
                maxAttempts=5,
                tags=["x"],
                retry={"strategy": "fixed"},
                timeoutSeconds=9,
            ),
        )
    )
    if paused:
        api.post(f"/jobs/{template['id']}/pause")
    before = body_of(api.get(f"/jobs/{template['id']}"))

    answer = api.post(f"/jobs/{template['id']}/run")

    assert answer.status_code == 201
    run = body_of(answer)
    assert answer["Location"] == f"/jobs/{run['id']}"
    copied = ("tenantId", "jobType", "payload", "priority", "maxAttempts", "tags", "retry")
    assert {name: run[name] for name in copied} == {name: template[name] for name in copied}
    assert run["timeoutSeconds"] == 9
    assert run["templateId"] == template["id"]
    assert run["scheduledAt"] == run["createdAt"]
    assert not run.keys() & {"cron", "occurrenceAt", "catchUp", "overlap", "missed", "skipped"}
    prefix, _, nanoseconds = run["idempotencyKey"].rpartition("-run-")
    assert prefix == "nightly"
    created = datetime.fromisoformat(run["createdAt"])
    assert int(nanoseconds) // 10**6 == round(created.timestamp() * 1000)
    # No occurrence falls on a part of a millisecond, so the run cannot take one's key.
    assert int(nanoseconds) % 10**6
    assert body_of(api.get(f"/jobs/{run['id']}")) == run
    assert body_of(api.get(f"/jobs/{template['id']}")) == before


def test_two_runs_within_one_millisecond_are_two_runs(
    api: Api, use_cases: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = body_of(api.post("/jobs", recurring()))
    now = use_cases.repository.clock.now()
    monkeypatch.setattr(use_cases.repository.clock, "now", lambda: now)

    runs = [body_of(api.post(f"/jobs/{template['id']}/run")) for _ in range(3)]

    assert len({run["id"] for run in runs}) == 3


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.DLQ])
def test_a_template_that_is_over_does_not_run(
    api: Api, use_cases: Services, status: Status
) -> None:
    template = a_template(status=status)
    use_cases.repository.jobs.insert([template])

    answer = api.post(f"/jobs/{template.id}/run")

    assert (answer.status_code, body_of(answer)["status"]) == (409, status)


def test_actions_take_any_body(api: Api) -> None:
    job = api.submit()

    answer = api.send(f"/jobs/{job['id']}/cancel", b"\xff" * 100, "text/plain")

    assert answer.status_code == 200


def test_an_action_on_a_document_that_cannot_be_read_is_409(api: Api, use_cases: Services) -> None:
    job_id = ObjectId()
    use_cases.repository.jobs._jobs.insert_one({"_id": job_id, "status": "dlq", "tenantId": "t"})

    assert str(job_id) in error_of(api.post(f"/jobs/{job_id}/redrive"), 409)
