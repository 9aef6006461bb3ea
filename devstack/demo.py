"""The demo: a few jobs of each kind, submitted over HTTP and watched until they are finished."""

from __future__ import annotations

import secrets
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx
from rich.box import SIMPLE_HEAD
from rich.live import Live
from rich.table import Table
from rich.text import Text

from devstack.process import DevstackError
from devstack.terminal import Terminal

TIMEOUT: Final = timedelta(seconds=60)
TENANT: Final = "demo"
FINISHED: Final = {"completed", "dlq", "cancelled"}
STYLES: Final = {"completed": "green", "dlq": "red", "cancelled": "red", "running": "cyan"}
_POLL_SECONDS: Final = 0.2


@dataclass
class Watched:
    """A job of the demo and what is known of it."""

    title: str
    id: str
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> str:
        return str(self.state.get("status", ""))

    @property
    def is_open(self) -> bool:
        """Whether the demo still waits for it; a template never ends."""
        return "cron" not in self.state and self.status not in FINISHED

    @property
    def failures(self) -> str:
        """Such as "2 / 3": attempts that failed, of those it may make."""
        failed = self.state.get("attempts", 0)
        return f"{failed} / {self.state['maxAttempts']}" if failed else ""

    def __str__(self) -> str:
        failures = f"{self.failures} attempts failed" if self.failures else ""
        known = filter(None, (self.status, failures, self.note))
        return f"{self.title}: {', '.join(known)}"

    @property
    def note(self) -> str:
        if "cron" in self.state:
            return f"next at {self.state['scheduledAt']}"
        return "" if self.status == "completed" else str(self.state.get("lastError", ""))


class Demo:
    """Submits and watches.

    Args:
        api_url: where the API answers, without a slash at the end.
    """

    def __init__(self, api_url: str, terminal: Terminal) -> None:
        self._client = httpx.Client(base_url=api_url, timeout=10, trust_env=False)
        self._terminal = terminal
        self._run = secrets.token_hex(4)

    def run(self) -> None:
        """Submit the jobs and return when every one-off job has completed.

        Raises:
            DevstackError: a job ended otherwise, or did not end in time.
        """
        try:
            with self._client:
                jobs = self._submit_all()
                self._watch(jobs)
        except httpx.HTTPError as exc:
            raise DevstackError(f"The demo cannot reach the API: {exc}") from exc
        if wrong := [
            job for job in jobs if not job.state.get("cron") and job.status != "completed"
        ]:
            ends = ", ".join(f"{job.title} ({job.id}) is {job.status}" for job in wrong)
            raise DevstackError(
                f"Not every job completed within {TIMEOUT.total_seconds():.0f} s: {ends}."
            )
        self._terminal.say("Every job of the demo completed.")

    def _submit_all(self) -> list[Watched]:
        now = datetime.now(UTC)
        jobs = [
            self._submit("log a message", "log-message", now, payload={"message": "Hello!"}),
            self._submit("slow, 1.5 s", "slow", now, payload={"sleepMs": 1500}),
            self._submit(
                "flaky, fails twice first",
                "flaky",
                now,
                payload={"failTimes": 2},
                retry={"strategy": "fixed", "base": 1},
            ),
            self._submit("due 3 s ahead", "noop", now + timedelta(seconds=3)),
        ]
        template = self._template()
        run = self._answer(self._client.post(f"/jobs/{template.id}/run"))
        return [*jobs, template, Watched("a run of it, right now", run["id"])]

    def _submit(self, title: str, job_type: str, due: datetime, **more: Any) -> Watched:
        body = {
            "idempotencyKey": f"demo-{self._run}-{title}",
            "tenantId": TENANT,
            "jobType": job_type,
            "scheduledAt": due.isoformat(),
            **more,
        }
        return Watched(title, self._answer(self._client.post("/jobs", json=body))["id"])

    def _template(self) -> Watched:
        """The every-minute template: the one of an earlier demo on the same data, if it is live."""
        body: dict[str, Any] = {
            "idempotencyKey": "demo-every-minute",
            "tenantId": TENANT,
            "jobType": "log-message",
            "cron": "* * * * *",
            "payload": {"message": "Another minute has passed."},
        }
        answer = self._client.post("/jobs", json=body)
        if answer.status_code == httpx.codes.CONFLICT:
            known = self._job(answer.json()["id"])
            if known["status"] == "pending":
                return Watched("every minute", known["id"])
            body["idempotencyKey"] = f"demo-every-minute-{self._run}"
            answer = self._client.post("/jobs", json=body)
        return Watched("every minute", self._answer(answer)["id"])

    def _watch(self, jobs: list[Watched]) -> None:
        give_up_at = time.monotonic() + TIMEOUT.total_seconds()
        console = self._terminal.console
        live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        with live or nullcontext():
            while True:
                for job in jobs:
                    before, job.state = job.state, self._job(job.id)
                    if live is None and _differs(before, job.state):
                        self._terminal.say(str(job))
                if live is not None:
                    live.update(_table(jobs), refresh=True)
                if not any(job.is_open for job in jobs) or time.monotonic() > give_up_at:
                    return
                time.sleep(_POLL_SECONDS)

    def _job(self, job_id: str) -> dict[str, Any]:
        return self._answer(self._client.get(f"/jobs/{job_id}"))

    def _answer(self, response: httpx.Response) -> dict[str, Any]:
        if response.is_error:
            raise DevstackError(
                f"{response.request.method} {response.request.url} answered "
                f"{response.status_code}: {response.text}"
            )
        answer: dict[str, Any] = response.json()
        return answer


def _differs(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return any(before.get(name) != after.get(name) for name in ("status", "attempts"))


def _table(jobs: list[Watched]) -> Table:
    table = Table("job", "type", "status", "failed", box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for job in jobs:
        status = Text(job.status, STYLES.get(job.status, ""))
        table.add_row(job.title, job.state["jobType"], status, job.failures, job.note)
    return table
