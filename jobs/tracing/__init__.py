"""Traces: off unless TRACING_ENDPOINT is set, and then nothing of OpenTelemetry is imported."""
