"""Tracing costs nothing while it is off."""

from __future__ import annotations

import subprocess
import sys

from django.conf import settings

from chronos_site import env
from jobs.tracing import spans, tracer
from tests.builders import NOW, a_job

PROGRAM = """
import django, sys
django.setup()
from django.core.management import get_commands, load_command_class
from jobs.tracing import tracer
for name in ("runapi", "runscheduler", "runfanout", "runexecutor", "runreaper"):
    load_command_class(get_commands()[name], name)
tracer.start(django.conf.settings.CHRONOS.tracing, "api", "api-1")
print([name for name in sys.modules if name.startswith(("opentelemetry", "google.protobuf"))])
"""


def test_no_role_imports_opentelemetry() -> None:
    environment = env.for_child(DJANGO_SETTINGS_MODULE="chronos_site.settings")

    output = subprocess.check_output(
        [sys.executable, "-c", PROGRAM], cwd=settings.BASE_DIR, env=environment, text=True
    )

    assert output.strip() == "[]"


def test_what_would_be_a_span_is_passed_on_as_it_came() -> None:
    sent = f"00-{'a1' * 16}-{'b2' * 8}-01"
    assert tracer.current() is None

    with spans.request("POST", sent, "request-1") as request:
        assert request.traceparent == sent
    with spans.attempt(a_job(traceparent=sent), NOW) as attempt:
        attempt.conclude(None)
        assert attempt.traceparent == sent
    assert spans.fired(a_job()) is None
