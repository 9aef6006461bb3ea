"""What takes spans in production, as far as tests need it: OTLP over HTTP, and nothing more."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class Received:
    """A span as it came in."""

    resource: dict[str, str]
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    """Empty for the first of a trace."""


class Collector:
    """A server of its own threads, on a free port of 127.0.0.1."""

    def __init__(self) -> None:
        self._spans: list[Received] = []
        self._lock = threading.Lock()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Content-Type"] == "application/x-protobuf"
                collector._take(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()

    def spans(self, trace_id: str) -> dict[str, Received]:
        """Those of a trace that have come in, by name."""
        with self._lock:
            return {span.name: span for span in self._spans if span.trace_id == trace_id}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _take(self, request: ExportTraceServiceRequest) -> None:
        received = [
            Received(
                {each.key: each.value.string_value for each in by_resource.resource.attributes},
                span.name,
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
            )
            for by_resource in request.resource_spans
            for by_scope in by_resource.scope_spans
            for span in by_scope.spans
        ]
        with self._lock:
            self._spans += received
