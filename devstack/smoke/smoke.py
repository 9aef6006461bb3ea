"""What the smoke test submits, and what has to become of it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import httpx

from devstack.process import DevstackError
from devstack.smoke.target import Target
from jobs.broker.membership import Membership
from jobs.broker.topics import ensure_topics

if TYPE_CHECKING:
    from chronos_site.config import BrokerConfig

TENANT: Final = "smoke"
TOPIC: Final = "chronos-smoke"
BULK: Final = 100
_FINISHED: Final = ("completed", "dlq", "cancelled")
_SIGNING_KEY: Final = secrets.token_bytes(32)
_POLL_SECONDS: Final = 0.1
_MESSAGE_SECONDS: Final = 10


@dataclass
class Check:
    """One line of the table: a job, what it has to end as, and what else has to hold."""

    title: str
    id: str
    status: str
    codes: list[int]
    """Of the attempts' responses, in order."""
    proof: Callable[[dict[str, Any]], str | None] = lambda job: None
    """What is wrong with the finished job, or None."""
    job: dict[str, Any] = field(default_factory=dict)
    executions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def problem(self) -> str | None:
        """What is wrong, in a few words."""
        if self.job.get("status") != self.status:
            return (
                f"is {self.job.get('status')}, not {self.status}: {self.job.get('lastError', '')}"
            )
        answered = [e["responseCode"] for e in reversed(self.executions) if "responseCode" in e]
        if answered != self.codes:
            return f"was answered {answered}, not {self.codes}"
        return self.proof(self.job)


class Smoke:
    """One run against the stack behind an API."""

    def __init__(self, api_url: str, broker: BrokerConfig, *, patience: timedelta) -> None:
        """
        Args:
            api_url: where the API answers.
            broker: the stack's Kafka.
            patience: for everything to end.
        """
        self._client = httpx.Client(base_url=api_url, timeout=10, trust_env=False)
        self._patience = patience
        self._run = secrets.token_hex(3)
        self._target = Target()
        ensure_topics(broker, [TOPIC])
        # A group of its own reads from the beginning: the messages of earlier runs too.
        self._messages = Membership(
            broker, topic=TOPIC, group=f"{TOPIC}-{self._run}", client_id=f"smoke-{self._run}"
        )
        self._arrived: dict[str, bytes] = {}

    def close(self) -> None:
        """Let go of the target and the connections."""
        self._messages.close()
        self._target.close()
        self._client.close()

    def run(self) -> list[Check]:
        """Define, schedule, wait, look.

        Returns:
            What became of each.

        Raises:
            DevstackError: the stack does not answer, or not as it should.
        """
        checks = self._submit()
        give_up_at = time.monotonic() + self._patience.total_seconds()
        waiting = list(checks)
        while waiting and time.monotonic() < give_up_at:
            for check in list(waiting):
                check.job = self._ask("GET", f"/jobs/{check.id}")
                if check.job["status"] in _FINISHED:
                    check.executions = self._ask("GET", f"/v1/executions?jobId={check.id}")
                    waiting.remove(check)
            self._read_messages()
        return checks

    def _submit(self) -> list[Check]:
        url = self._target.url
        signature = {"secret": "whsec_" + base64.b64encode(_SIGNING_KEY).decode()}
        fixed = {"strategy": "fixed", "base": 1}
        self._define("ok", "http", {"url": f"{url}/ok", **signature}, payload={"from": "default"})
        self._define("flaky", "http", {"url": f"{url}/flaky"}, retry=fixed, maxAttempts=5)
        self._define("down", "http", {"url": f"{url}/flaky"}, retry=fixed, maxAttempts=2)
        self._define("gone", "http", {"url": f"{url}/gone"}, maxAttempts=5)
        kafka = {"topic": TOPIC, "key": "{{{ idempotencyKey }}}", "headers": {"source": "smoke"}}
        self._define("kafka", "kafka", kafka)
        self._define("nowhere", "kafka", {"topic": f"{TOPIC}-nowhere"}, maxAttempts=5)
        tomorrow = timedelta(days=1)

        moved = self._schedule("rescheduled", "ok", due_in=tomorrow)
        self._ask("PATCH", f"/v1/schedules/{moved}", {"scheduledAt": _soon()})
        cancelled = self._schedule("cancelled", "ok", due_in=tomorrow)
        self._ask("DELETE", f"/v1/schedules/{cancelled}")
        bulk = [self._document(f"bulk-{number}", "ok") for number in range(BULK)]
        results = self._ask("POST", "/v1/schedules/bulk", bulk)
        template = self._document("template", "ok", cron="0 0 1 1 *", payload={"n": "template"})
        del template["scheduledAt"]
        template_id = self._ask("POST", "/jobs", template)["id"]
        run_id = self._ask("POST", f"/jobs/{template_id}/run")["id"]
        self._ask("POST", f"/jobs/{template_id}/cancel")
        return [
            Check("HTTP, signed", self._schedule("ok", "ok"), "completed", [200], self._signed),
            Check(
                "HTTP, 2 s ahead",
                self._schedule("later", "ok", due_in=timedelta(seconds=2)),
                "completed",
                [200],
            ),
            Check("HTTP, rescheduled", moved, "completed", [200]),
            Check("HTTP, cancelled", cancelled, "cancelled", []),
            Check(
                "HTTP, two failures first",
                self._schedule("flaky", "flaky"),
                "completed",
                [503, 503, 200],
                self._same_key,
            ),
            Check("HTTP, never up in time", self._schedule("down", "down"), "dlq", [503, 503]),
            Check("HTTP, gone for good", self._schedule("gone", "gone"), "dlq", [410]),
            *(
                Check(
                    f"HTTP, {place} of {BULK} in bulk", results[place - 1]["id"], "completed", [200]
                )
                for place in (1, BULK)
            ),
            Check("HTTP, run of a template", run_id, "completed", [200], self._payload("template")),
            Check(
                "Kafka", self._schedule("kafka", "kafka"), "completed", [], self._message("kafka")
            ),
            Check("Kafka, unknown topic", self._schedule("nowhere", "nowhere"), "dlq", []),
        ]

    def _define(self, name: str, job_type: str, delivery: dict[str, Any], **more: Any) -> None:
        document = {"jobType": job_type, "delivery": delivery, **more}
        self._ask("PUT", f"/v1/definitions/{name}?tenantId={TENANT}", document)

    def _document(self, name: str, definition: str, **more: Any) -> dict[str, Any]:
        return {
            "idempotencyKey": f"smoke-{self._run}-{name}",
            "tenantId": TENANT,
            "definition": definition,
            "scheduledAt": _soon(),
            "payload": {"n": name},
            **more,
        }

    def _schedule(self, name: str, definition: str, *, due_in: timedelta = timedelta(0)) -> str:
        document = self._document(name, definition, scheduledAt=_soon(due_in))
        return str(self._ask("POST", "/v1/schedules", document)["id"])

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            answer = self._client.request(method, path, json=body)
        except httpx.HTTPError as exc:
            raise DevstackError(
                f"the API does not answer at {self._client.base_url}: {exc}. Start the stack"
                " (make demo), or set API_PORT or --url."
            ) from exc
        if answer.is_error:
            raise DevstackError(f"{method} {path} answered {answer.status_code}: {answer.text}")
        return answer.json()

    def _read_messages(self) -> None:
        message = self._messages.poll(_POLL_SECONDS)
        while message is not None:
            self._arrived[(message.key() or b"").decode()] = message.value() or b""
            message = self._messages.poll(0)

    def _signed(self, job: dict[str, Any]) -> str | None:
        (request,) = self._target.received[job["id"]]
        headers = {name.lower(): value for name, value in request.headers.items()}
        signed = b".".join(
            (headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), request.body)
        )
        digest = hmac.digest(_SIGNING_KEY, signed, hashlib.sha256)
        expected = "v1," + base64.b64encode(digest).decode()
        return None if headers["webhook-signature"] == expected else "has a wrong signature"

    def _same_key(self, job: dict[str, Any]) -> str | None:
        attempts = [
            each.headers.get("Chronos-Attempt") for each in self._target.received[job["id"]]
        ]
        return None if attempts == ["1", "2", "3"] else f"arrived as attempts {attempts}"

    def _payload(self, name: str) -> Callable[[dict[str, Any]], str | None]:
        expected = f'{{"n":"{name}"}}'.encode()

        def proof(job: dict[str, Any]) -> str | None:
            bodies = [each.body for each in self._target.received[job["id"]]]
            return None if bodies == [expected] else f"sent {bodies!r}"

        return proof

    def _message(self, name: str) -> Callable[[dict[str, Any]], str | None]:
        def proof(job: dict[str, Any]) -> str | None:
            # It was confirmed before the job was completed, so it is there to be read.
            give_up_at = time.monotonic() + _MESSAGE_SECONDS
            while job["idempotencyKey"] not in self._arrived and time.monotonic() < give_up_at:
                self._read_messages()
            value = self._arrived.get(job["idempotencyKey"])
            return None if value == f'{{"n":"{name}"}}'.encode() else f"the topic has {value!r}"

        return proof


def _soon(after: timedelta = timedelta(0)) -> str:
    return (datetime.now(UTC) + after).isoformat()
