"""A load test from its first request to its report."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from jobs.load.api import Answer, Api, LoadError, NoAnswer
from jobs.load.clock import Sample, clock_offset
from jobs.load.fates import wait_until_over
from jobs.load.plan import Plan
from jobs.load.progress import progress, waiting
from jobs.load.report import Client, Report
from jobs.load.sender import Outcome, Sender

_CREATED: Final = 201
_OK: Final = 200
_WARM_UP_JOBS: Final = 5
_HEAD_START: Final = timedelta(milliseconds=50)
"""Until the first request, for the threads to start."""


def run(plan: Plan, api: Api, *, connections: int, patience: timedelta) -> Report:
    """Submit the plan's jobs, wait until they are over, and report.

    Args:
        plan: what to submit.
        api: where.
        connections: requests on their way at once, at most.
        patience: how long to wait after the last job came due.

    Raises:
        LoadError: the API refuses such jobs, or does not answer at the start or at the end.
    """
    offset = _warm_up(plan, api)
    requests = plan.requests
    start = datetime.now(UTC) + _HEAD_START + offset
    began_at = time.monotonic() + _HEAD_START.total_seconds()
    cpu_before = time.process_time()
    send_times = [began_at + plan.submit_after(numbers[0]).total_seconds() for numbers in requests]
    with progress("requests", len(requests)) as advance:
        sent = Sender(
            lambda request: _submit(plan, api, requests[request], start), connections=connections
        ).run(send_times, advance)
    client = Client(
        connections=connections,
        cpu_share=(time.process_time() - cpu_before) / (time.monotonic() - began_at),
        clock_offset=offset,
    )
    with waiting("submitted; waiting until every job is over"):
        last_due_at = plan.due_at(plan.jobs - 1, start) - offset
        time.sleep(max(0.0, (last_due_at - datetime.now(UTC)).total_seconds()))
        fates = wait_until_over(api, plan.tenant, patience)
    return Report.of(plan, sent, fates, start=start, began_at=began_at, client=client)


def _warm_up(plan: Plan, api: Api) -> timedelta:
    """Submit some jobs that do not count; returns the clock's offset.

    Besides, the first requests of a connection, and of an API that has just started, are slow.
    """
    samples = []
    for number in range(_WARM_UP_JOBS):
        asked_at = datetime.now(UTC)
        key = f"{plan.tenant}-warm-up"
        document = plan.document(number, asked_at) | {
            "idempotencyKey": f"{key}-{number}",
            "tenantId": key,
        }
        answer = api.post("/jobs", document)
        if answer.status != _CREATED:
            raise LoadError(f"{api.url} refuses such a job: {answer.problem}")
        created_at = datetime.fromisoformat(json.loads(answer.body)["createdAt"])
        samples.append(Sample(asked_at, created_at, datetime.now(UTC)))
    return clock_offset(samples)


def _submit(plan: Plan, api: Api, numbers: Sequence[int], start: datetime) -> Outcome:
    documents = [plan.document(number, start) for number in numbers]
    try:
        if plan.is_backlog:
            return _bulk_outcome(numbers, api.post("/jobs/bulk", documents))
        answer = api.post("/jobs", documents[0])
    except NoAnswer as exc:
        return Outcome((), Counter({exc.reason: len(numbers)}))
    if answer.status == _CREATED:
        return Outcome(numbers, Counter())
    return Outcome((), Counter([answer.problem]))


def _bulk_outcome(numbers: Sequence[int], answer: Answer) -> Outcome:
    if answer.status != _OK:
        return Outcome((), Counter({answer.problem: len(numbers)}))
    accepted, problems = [], Counter[str]()
    for number, item in zip(numbers, json.loads(answer.body), strict=True):
        if item["status"] == _CREATED:
            accepted.append(number)
        else:
            problems[f"{item['status']} {item['error']}"] += 1
    return Outcome(accepted, problems)
