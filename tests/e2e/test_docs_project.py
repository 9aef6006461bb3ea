"""A Django project with a database of its own uses Chronos, by the words of docs/handlers.md."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from bson import ObjectId
from django.core.management import call_command

from jobs.lifecycle import Job, Status
from jobs.repository import Repository
from tests.guide import example
from tests.processes import RoleProcess
from tests.waiting import ANSWER_SECONDS, wait_for

ORDERS = '''
"""A handler that uses the project's own database."""
from django.contrib.auth.models import User
from jobs.registry import Context, handler

@handler("count-users")
def count_users(context: Context) -> int:
    return User.objects.count()
'''


class Supplier(BaseHTTPRequestHandler):
    """Answers with a price list to whoever says who asks."""

    def do_GET(self) -> None:
        body = json.dumps({"bolt": 2, "nut": 1}).encode()
        self.send_response(200 if self.headers["Idempotency-Key"] else 400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing to be seen here."""


@pytest.fixture
def supplier() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Supplier) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What `django-admin startproject` makes, on SQLite, with two apps and the page's files."""
    call_command("startproject", "myproject", str(tmp_path))
    settings = tmp_path / "myproject" / "settings.py"
    settings.write_text(settings.read_text() + '\nINSTALLED_APPS += ["shop", "orders"]\n')
    (tmp_path / "myproject" / "chronos.py").write_text(example("myproject/chronos.py"))
    for app, text in {"shop": example("shop/handlers.py"), "orders": ORDERS}.items():
        (tmp_path / app).mkdir()
        (tmp_path / app / "__init__.py").touch()
        (tmp_path / app / "handlers.py").write_text(text)
    return tmp_path


def test_a_project_runs_the_handlers_of_its_apps(
    project: Path,
    supplier: str,
    repo: Repository,
    role_env: dict[str, str],
    start_role: Callable[..., RoleProcess],
) -> None:
    variables = {"DJANGO_SETTINGS_MODULE": "myproject.chronos", "PYTHONPATH": str(project)}
    api = f"http://127.0.0.1:{role_env['API_PORT']}"
    file = project / "prices.csv"
    payloads: dict[str, dict[str, Any]] = {
        "import-prices": {"url": supplier, "file": str(file)},
        "close-day": {"notBefore": "2026-01-01T00:00:00+00:00"},
        "count-primes": {"limit": 100},
        "count-users": {},
    }
    assert start_role("migrate", **variables).wait() == 0
    start_role("runscheduler", **variables)
    start_role("runexecutor", "--type", ",".join(payloads), **variables)
    start_role("runapi", **variables).wait_ready()
    account = start_role("account", "olga", "--member=shop:viewer", **variables)
    password = account.wait_for_line("Password: ").removeprefix("Password: ")
    assert account.wait() == 0

    with httpx.Client(base_url=api, trust_env=False, timeout=ANSWER_SECONDS) as client:
        ids = {
            job_type: client.post("/jobs", json=_job(job_type, payload)).json()["id"]
            for job_type, payload in payloads.items()
        }
        page, nothing = client.get("/docs"), client.get("/nothing")
        overview = _overview(client, password)

    def all_over() -> bool:
        return all(_read(repo, job_id).status is Status.COMPLETED for job_id in ids.values())

    wait_for(all_over)
    results = {job_type: _read(repo, job_id).result for job_type, job_id in ids.items()}
    assert results == {
        "import-prices": '{"rows": 2}',
        "close-day": None,
        "count-primes": "25",
        "count-users": "1",
    }
    assert file.read_text().split() == ["bolt,2", "nut,1"]
    assert page.status_code == httpx.codes.OK
    assert nothing.json().keys() == {"error"}
    assert "Overview" in overview


def _overview(client: httpx.Client, password: str) -> str:
    """What the admin shows to a user of the project's own database."""
    [token] = re.findall('csrfmiddlewaretoken" value="(.+?)"', client.get("/admin/login/").text)
    fields = {"username": "olga", "password": password, "csrfmiddlewaretoken": token}
    assert client.post("/admin/login/", data=fields).status_code == httpx.codes.FOUND
    return client.get("/admin/overview/").raise_for_status().text


def _job(job_type: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "idempotencyKey": job_type,
        "tenantId": "shop",
        "jobType": job_type,
        "payload": payload,
        "scheduledAt": "1970-01-01T00:00:00Z",
    }


def _read(repo: Repository, job_id: str) -> Job:
    return repo.jobs.get(ObjectId(job_id))
