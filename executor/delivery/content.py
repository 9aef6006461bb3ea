"""What is sent: the payload as it is, or a template with the job's values in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from executor.calls import AttemptError, BadPayload
from jobs.delivery.body import render
from jobs.instants import format_instant
from jobs.json_text import NotJson, loads
from jobs.lifecycle import Job

_NOTHING = "{}"


class BadTemplate(AttemptError):
    """The job's values do not fit into a template."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, is_final=True)


class Content:
    """What can be sent of one job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._values: Mapping[str, Any] | None = None

    def body(self, template: str | None) -> bytes:
        """The rendered template; the payload as JSON when there is none.

        Raises:
            BadTemplate, BadPayload: it cannot be made.
        """
        if template is None:
            return (self._job.payload or _NOTHING).encode(errors="backslashreplace")
        return self.text(template, "delivery.body").encode(errors="backslashreplace")

    def text(self, template: str, name: str) -> str:
        """A rendered template.

        Args:
            template: what to render.
            name: the field that holds it, for the error.

        Raises:
            BadTemplate, BadPayload: it cannot be rendered.
        """
        if self._values is None:
            self._values = _values_of(self._job)
        try:
            return render(template, self._values)
        except ValueError as exc:
            raise BadTemplate(f"{name} {exc}") from exc


def _values_of(job: Job) -> Mapping[str, Any]:
    try:
        payload = loads(job.payload or _NOTHING)
    except NotJson as exc:
        raise BadPayload(f"the stored payload is not JSON: {exc}") from exc
    return {
        "payload": payload,
        "jobId": str(job.id),
        "attempt": job.attempts + 1,
        "tenantId": job.tenant_id,
        "jobType": job.job_type,
        "scheduledAt": format_instant(job.scheduled_at),
        "idempotencyKey": job.idempotency_key,
        "definition": job.definition,
    }
