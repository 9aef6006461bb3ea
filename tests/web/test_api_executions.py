"""/v1/executions: attempts by tenant or job, one of them, and what it logged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

import pytest
from bson import ObjectId

from jobs.executions import Execution, LogLine, execution_id
from jobs.lifecycle import Attempt, Outcome, Response, Status, job_id_for
from jobs.repository import Repository
from jobs.repository.attempt_logs import LogBatch
from jobs.services import Services
from tests.builders import NOW, a_job
from tests.web.client import Api, body_of, error_of
from tests.web.test_api_list import ids, pages

PATH: Final = "/v1/executions"
CLAIM: Final = "0123456789abcdef"
SECOND: Final = timedelta(seconds=1)
Record = Callable[..., Execution]


@pytest.fixture
def repo(use_cases: Services) -> Repository:
    repository = use_cases.repository
    repository.executions._executions.delete_many({})
    repository.attempt_logs._logs.delete_many({})
    return repository


@pytest.fixture
def record(repo: Repository) -> Record:
    """Stores an execution of tenant "t"; keywords are its fields and those of its attempt."""

    def record(**fields: Any) -> Execution:
        job_id = fields.pop("job_id", ObjectId())
        attempt = Attempt(
            number=1,
            executor="executor-1",
            started_at=fields.pop("started_at", NOW),
            finished_at=fields.pop("finished_at", NOW + SECOND),
            outcome=fields.pop("outcome", Outcome.COMPLETED),
            **{
                name: fields.pop(name)
                for name in ("error", "error_class", "response")
                if name in fields
            },
        )
        execution = Execution(
            **{
                "id": execution_id(job_id, fields.pop("claim_id", uuid4().hex[:16])),
                "job_id": job_id,
                "tenant_id": "t",
                "job_type": "noop",
                "attempt": attempt,
                **fields,
            }
        )
        repo.executions.record([execution])
        return execution

    return record


@pytest.fixture
def log(repo: Repository) -> Callable[..., None]:
    """Stores lines of an attempt."""

    def log(shown_id: str, *messages: str, is_truncated: bool = False) -> None:
        lines = [LogLine(NOW, "INFO", "executor.handler", message) for message in messages]
        for place, line in enumerate(lines):
            repo.attempt_logs.append([LogBatch(shown_id, place, [line], is_truncated)], now=NOW)

    return log


def test_an_attempt_is_shown_with_all_that_is_known(api: Api, record: Record) -> None:
    execution = record(
        job_type="http",
        template_id=job_id_for("t"),
        definition="invoice",
        outcome=Outcome.FAILED,
        error="the target answered 503",
        error_class="HttpStatus",
        response=Response(503, "try again"),
        finished_at=NOW + timedelta(milliseconds=1250),
    )

    body = body_of(api.get(f"{PATH}/{execution.id}"))

    assert body == {
        "id": execution.id,
        "jobId": str(execution.job_id),
        "tenantId": "t",
        "jobType": "http",
        "templateId": str(job_id_for("t")),
        "definition": "invoice",
        "attempt": 1,
        "executor": "executor-1",
        "startedAt": "2026-01-15T12:00:00Z",
        "finishedAt": "2026-01-15T12:00:01.250Z",
        "durationMs": 1250,
        "outcome": "failed",
        "responseCode": 503,
        "responseExcerpt": "try again",
        "errorClass": "HttpStatus",
        "error": "the target answered 503",
    }
    body.pop("responseExcerpt")
    assert body_of(api.get(PATH, tenantId="t")) == [body]
    assert body_of(api.get(f"{PATH}/{execution.id.upper()}"))["id"] == execution.id


def test_an_attempt_without_more_to_tell_shows_no_empty_fields(api: Api, record: Record) -> None:
    assert list(body_of(api.get(f"{PATH}/{record().id}"))) == [
        *("id", "jobId", "tenantId", "jobType", "attempt", "executor"),
        *("startedAt", "finishedAt", "durationMs", "outcome"),
    ]


def test_the_attempt_that_a_job_is_making_is_shown(api: Api, repo: Repository) -> None:
    job = a_job(
        status=Status.RUNNING,
        attempts=1,
        claim_id=CLAIM,
        claimed_by="executor-1",
        started_at=NOW,
        definition="invoice",
    )
    repo.jobs.insert([job])

    running = body_of(api.get(f"/jobs/{job.id}"))["executionId"]
    shown = body_of(api.get(f"{PATH}/{running}"))

    assert shown == {
        "id": f"{job.id}-{CLAIM}",
        "jobId": str(job.id),
        "tenantId": job.tenant_id,
        "jobType": "noop",
        "definition": "invoice",
        "attempt": 2,
        "executor": "executor-1",
        "startedAt": "2026-01-15T12:00:00Z",
        "outcome": "running",
    }
    assert body_of(api.get(f"{PATH}/{job.id}-{CLAIM}/logs"))["lines"] == []
    assert body_of(api.get(PATH, jobId=str(job.id))) == []
    assert error_of(api.get(f"{PATH}/{job.id}-{'f' * 16}"), 404)


@pytest.mark.parametrize("status", [Status.QUEUED, Status.CLAIMED])
def test_a_claim_that_runs_nothing_yet_is_no_attempt(
    api: Api, repo: Repository, status: Status
) -> None:
    job = a_job(status=status, claim_id=CLAIM)
    repo.jobs.insert([job])

    problem = f"no attempt has the id {job.id}-{CLAIM}"
    assert error_of(api.get(f"{PATH}/{job.id}-{CLAIM}"), 404) == problem
    assert error_of(api.get(f"{PATH}/{job.id}-{CLAIM}/logs"), 404) == problem


def test_cancelling_a_running_job_leaves_its_attempt(api: Api, repo: Repository) -> None:
    job = a_job(status=Status.RUNNING, claim_id=CLAIM, claimed_by="e", started_at=NOW)
    repo.jobs.insert([job])

    api.post(f"/jobs/{job.id}/cancel")

    shown = body_of(api.get(f"{PATH}/{job.id}-{CLAIM}"))
    assert (shown["outcome"], shown["startedAt"]) == ("cancelled", "2026-01-15T12:00:00Z")
    assert "finishedAt" in shown


def test_a_record_outlives_its_job_and_a_job_that_cannot_be_read(
    api: Api, repo: Repository, record: Record
) -> None:
    job = a_job()
    repo.jobs.insert([job])
    repo.jobs._jobs.update_one({"_id": job.id}, {"$set": {"priority": "high"}})

    for execution in (record(job_id=job.id), record()):
        assert body_of(api.get(f"{PATH}/{execution.id}"))["id"] == execution.id


@pytest.mark.parametrize(
    "text", ["x", "0" * 24, f"{'0' * 24}-", f"{'0' * 24}-{'g' * 16}", f"{'0' * 24}-{'0' * 15}"]
)
@pytest.mark.parametrize("more", ["", "/logs"])
def test_a_malformed_id_is_400(api: Api, text: str, more: str) -> None:
    assert "16 hexadecimal digits" in error_of(api.get(f"{PATH}/{text}{more}"), 400)


def test_filters_narrow_the_list(api: Api, record: Record) -> None:
    job_id, template_id = str(job_id_for("j")), str(job_id_for("t"))
    names = {
        record().id: "plain",
        record(job_type="slow").id: "slow",
        record(outcome=Outcome.LOST).id: "lost",
        record(definition="invoice").id: "defined",
        record(template_id=job_id_for("t")).id: "run",
        record(job_id=job_id_for("j"), started_at=NOW + SECOND).id: "job",
        record(tenant_id="u", job_id=job_id_for("j")).id: "another",
    }

    def found(**filters: object) -> set[str]:
        return {names[each["id"]] for each in body_of(api.get(PATH, **filters))}

    assert found(tenantId="t") == set(names.values()) - {"another"}
    assert found(tenantId="t", jobType="slow") == {"slow"}
    assert found(tenantId="t", outcome="lost") == {"lost"}
    assert found(tenantId="t", definition="invoice") == {"defined"}
    assert found(tenantId="t", templateId=template_id.upper()) == {"run"}
    assert found(jobId=job_id) == {"job", "another"}
    assert found(jobId=job_id, tenantId="u") == {"another"}
    assert found(**{"tenantId": "t", "from": "2026-01-15T13:00:01+01:00"}) == {"job"}
    assert "job" not in found(tenantId="t", to="2026-01-15T12:00:01Z")
    assert found(**{"tenantId": "t", "from": "2027-01-01T00:00:00Z", "to": ""}) == set()


def test_the_links_lead_through_all_of_them_newest_first(api: Api, record: Record) -> None:
    recorded = [record(started_at=NOW + number // 3 * SECOND) for number in range(10)]
    record(outcome=Outcome.FAILED)

    seen = list(pages(api, f"{PATH}?tenantId=t&outcome=completed&limit=4"))

    assert [len(page) for page in seen] == [4, 4, 2]
    newest_first = sorted(
        recorded, key=lambda each: (each.attempt.started_at, each.id), reverse=True
    )
    assert ids(seen[0] + seen[1] + seen[2]) == [each.id for each in newest_first]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("", "tenantId is required without jobId"),
        ("?tenantId=&jobId=", "tenantId is required without jobId"),
        ("?tenantId=t&outcome=pending", "outcome must be one of completed, failed"),
        ("?jobId=7", "jobId is malformed: a job id has 24 hexadecimal digits"),
        ("?tenantId=t&templateId=7", "templateId is malformed"),
        ("?tenantId=t&from=yesterday", "from must be RFC 3339"),
        ("?tenantId=t&to=2026-01-15", "to must be RFC 3339"),
        ("?tenantId=t&outcom=lost", '"outcom" is not a parameter here; did you mean'),
        ("?tenantId=t&cursor=AAABoilcCA8qsgvJ4M6veD-q6_k", "cursor must come from a Link header"),
        ("?tenantId=t&cursor=x", "cursor must come from a Link header"),
    ],
)
def test_what_cannot_be_asked_is_400(api: Api, query: str, problem: str) -> None:
    assert error_of(api.client.get(f"{PATH}{query}"), 400).startswith(problem)


def test_lines_are_answered_in_their_order(
    api: Api, record: Record, log: Callable[..., None]
) -> None:
    execution = record()
    log(execution.id, *(f"line {number}" for number in range(12)))
    log(record().id, "another's")

    body = body_of(api.get(f"{PATH}/{execution.id}/logs"))

    assert list(body) == ["executionId", "lines"]
    assert body["executionId"] == execution.id
    assert [line["message"] for line in body["lines"]] == [f"line {n}" for n in range(12)]
    assert body["lines"][0] == {
        "at": "2026-01-15T12:00:00Z",
        "level": "INFO",
        "logger": "executor.handler",
        "message": "line 0",
    }


def test_lines_that_are_missing_are_told(
    api: Api, record: Record, log: Callable[..., None]
) -> None:
    execution = record()
    log(execution.id, "a", "7 more lines were not kept", is_truncated=True)

    assert body_of(api.get(f"{PATH}/{execution.id}/logs"))["truncated"] is True


@pytest.mark.parametrize(
    ("query", "accept", "is_text"),
    [
        ("?format=text", "application/json", True),
        ("", "text/plain", True),
        ("", "text/plain, application/json;q=0.5", True),
        ("", "*/*", False),
        ("", "text/html", False),
        ("?format=json", "text/plain", False),
        ("?format=", "application/json", False),
    ],
)
def test_lines_may_be_read_as_text(
    api: Api, log: Callable[..., None], query: str, accept: str, is_text: bool
) -> None:
    # Also without a record: the lines of an attempt are there before its end.
    shown_id = f"{ObjectId()}-{CLAIM}"
    log(shown_id, "a", "<b>\nTraceback")

    answer = api.client.get(f"{PATH}/{shown_id}/logs{query}", headers={"accept": accept})

    if is_text:
        assert answer["Content-Type"] == "text/plain; charset=utf-8"
        start = "2026-01-15T12:00:00Z INFO executor.handler:"
        assert answer.content.decode() == f"{start} a\n{start} <b>\nTraceback\n"
    else:
        assert len(body_of(answer)["lines"]) == 2


def test_an_unknown_format_or_parameter_is_400(api: Api, record: Record) -> None:
    path = f"{PATH}/{record().id}/logs"

    assert error_of(api.get(path, format="xml"), 400) == "format must be one of json, text"
    assert "did you mean" in error_of(api.get(path, formt="text"), 400)


def test_an_attempt_that_logged_nothing_has_no_lines(
    api: Api, record: Record, repo: Repository
) -> None:
    execution = record()

    assert repo.attempt_logs.find(execution.id) is None
    assert body_of(api.get(f"{PATH}/{execution.id}/logs"))["lines"] == []
    assert api.get(f"{PATH}/{execution.id}/logs", format="text").content == b""


@pytest.mark.parametrize(
    "change",
    [
        {"$unset": {"number": 1}},
        {"$set": {"outcome": "splendid"}},
        {"$set": {"startedAt": "yesterday"}},
        {"$set": {"responseCode": "200"}},
        {"$set": {"error": 5}},
        {"$set": {"jobId": "x"}},
    ],
)
def test_a_record_that_was_edited_by_hand_is_told_and_hides_no_other(
    api: Api, repo: Repository, record: Record, change: dict[str, Any]
) -> None:
    broken, good = record(), record()
    repo.executions._executions.update_one({"_id": broken.id}, change)

    assert broken.id in error_of(api.get(f"{PATH}/{broken.id}"), 409)
    assert [each["id"] for each in body_of(api.get(PATH, tenantId="t"))] == [good.id]


def test_lines_that_were_edited_by_hand_harm_nobody(
    api: Api, repo: Repository, record: Record
) -> None:
    execution = record()
    line = LogLine(NOW, "INFO", "a", "good")
    repo.attempt_logs.append([LogBatch(execution.id, 1, [line], False)], now=repo.clock.now())
    repo.attempt_logs._logs.update_one({}, {"$push": {"lines": {"$each": [5, {"at": 5}]}}})
    repo.attempt_logs._logs.insert_one({"_id": f"{execution.id}-000002", "lines": "none"})

    lines = body_of(api.get(f"{PATH}/{execution.id}/logs"))["lines"]

    assert [each["message"] for each in lines] == ["good"]
