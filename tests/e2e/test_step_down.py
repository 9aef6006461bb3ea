"""MongoDB's primary steps down again and again while everything is in use: nothing is lost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from pymongo import MongoClient

from devstack.mongo import Mongod
from jobs.audit import Action, Author, Via
from jobs.bulk import Filter, Kind, State
from jobs.bulk_services import BulkServices
from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from tests.processes import RoleProcess
from tests.records import read_runs
from tests.waiting import wait_for

PATIENCE: Final = timedelta(seconds=60)
DEAD: Final = 120
SUBMITTED: Final = 40
PAGES: Final = ("overview", "jobs", "operations", "audit", "templates", "nodes", "dead-letters")
ALICE: Final = Author("alice", Via.ADMIN)


@pytest.fixture
def mongo_server(private_mongod: Callable[[], Mongod]) -> Mongod:
    """In place of the run's: this one steps down."""
    return private_mongod()


def step_down(location: str) -> None:
    """Have the one member be no primary for two seconds."""
    client: MongoClient[dict[str, Any]] = MongoClient(location)
    with client:
        client.admin.command("replSetStepDown", 2, force=True)
        wait_for(lambda: client.admin.command("hello")["isWritablePrimary"], deadline=PATIENCE)


def logged_in(url: str, password: str) -> httpx.Client:
    """A browser without JavaScript."""
    browser = httpx.Client(base_url=url, trust_env=False, follow_redirects=True, timeout=60)
    browser.get("/admin/login/")
    form = {"username": "root", "password": password, "next": "/admin/overview/"}
    token = {"csrfmiddlewaretoken": browser.cookies["csrftoken"]}
    assert browser.post("/admin/login/", data=form | token).url.path == "/admin/overview/"
    return browser


def test_a_primary_that_steps_down_costs_a_sentence_and_no_job(
    mongo_server: Mongod,
    start: Callable[..., RoleProcess],
    role_env: dict[str, str],
    repo: Repository,
    insert: Callable[..., list[Job]],
    count_by_status: Callable[[list[Job]], Counter[str]],
    record_file: Path,
) -> None:
    url = f"http://127.0.0.1:{role_env['API_PORT']}"
    assert start("migrate", "--verbosity=0").wait() == 0
    account = start("account", "root", "--superuser")
    password = account.wait_for_line("Password: ").removeprefix("Password: ")
    roles = [start(name) for name in ("runapi", "runscheduler", "runexecutor")]
    roles.append(start("runreaper", BULK_RATE="40"))
    for role in roles:
        role.wait_ready()
    browser = logged_in(url, password)
    ended_at = repo.clock.now() - timedelta(seconds=1)
    dead = insert(DEAD, status=Status.DLQ, finished_at=ended_at, last_error="why")
    over = threading.Event()

    def look() -> list[tuple[str, int, str]]:
        """What the pages answer until it is over."""
        answers = []
        while not over.is_set():
            for page in PAGES:
                answer = browser.get(f"/admin/{page}/")
                answers.append((page, answer.status_code, answer.text))
        return answers

    def submit() -> list[tuple[int, str]]:
        """Whatever is not answered is sent again, as its sender would do."""
        answers = []
        for number in range(SUBMITTED):
            document = {
                "idempotencyKey": f"key-{number}",
                "tenantId": "a",
                "jobType": "test-record",
                "payload": {"file": str(record_file)},
                "scheduledAt": "2026-01-01T00:00:00Z",
            }
            while True:
                answer = httpx.post(f"{url}/jobs", json=document, trust_env=False, timeout=60)
                answers.append((answer.status_code, answer.text))
                if answer.status_code in (201, 409):
                    break
                over.wait(0.1)
        return answers

    with ThreadPoolExecutor() as threads:
        pages, submitted = threads.submit(look), threads.submit(submit)
        try:
            operation = BulkServices(repo).start(Kind.REDRIVE, Filter(), tenants=None, by=ALICE)
            for _ in range(2):
                wait_for(lambda: submitted.done() or repo.bulk.find(operation.id, None))
                step_down(mongo_server.location)
            wait_for(lambda: count_by_status(dead) == {Status.COMPLETED: DEAD}, deadline=PATIENCE)
            answers = submitted.result(PATIENCE.total_seconds())
        finally:
            over.set()
        seen = pages.result(PATIENCE.total_seconds())

    done = repo.bulk.find(operation.id, None)
    assert done is not None
    assert (done.state, done.done, done.gone) == (State.COMPLETED, DEAD, 0)
    entries, _ = repo.audit_log.page(None, limit=DEAD, action=Action.JOB_REDRIVE)
    assert sorted(target for entry in entries for target in entry.targets) == sorted(
        str(job.id) for job in dead
    )
    runs = read_runs(record_file)
    assert {str(job.id) for job in dead} <= runs.keys()
    assert {status for status, _ in answers} <= {201, 409, 503}
    assert len([each for each in answers if each[0] in (201, 409)]) == SUBMITTED
    assert {status for _, status, _ in seen} <= {200, 503}
    said = [text for _, status, text in seen if status == 503]
    assert all("MongoDB does not answer" in text for text in said)
    for role in roles:
        assert role.is_alive
        assert "Traceback" not in role.output
